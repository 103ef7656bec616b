import FoundationEssentials
import Glibc
import HistoryMessaging
import PersistentHistory
import TidingsServices

enum ConsumeCommand: Subcommand {
    static let name = "consume"
    static let summary = "Follow the history as a registered consumer, into a pipe, a command or a database"
    static let options: [Option] =
        [
            .value("--author", "A", "on whose behalf it reads"),
            .value("--consumer", "C", "the consumer's name, to which its token and its acknowledgements belong"),
            .flag("--json", "one JSON object a transaction to standard output"),
            .value("--output", "FILE", "with --json: to this file, each transaction once"),
            .value("--exec", "CMD", "run a shell command for each batch, with the JSON objects as its input"),
            .value("--into", "FILE", "keep a SQLite file in step"),
            .value("--entity", "E", "only changes of this entity", isRepeatable: true),
            .value("--only-author", "A", "merge only this author's transactions", isRepeatable: true),
            .value("--not-author", "A", "never merge this author's transactions", isRepeatable: true),
            .value("--from", "START", "where a new consumer begins: snapshot, beginning, now or a token"),
            .flag("--once", "end when all is merged that was there at the start"),
            .value("--report", "FILE", "write counts and lags to this file, each second and at the end"),
        ] + ServiceOptions.options
    static let details = """
        One of --json, --exec and --into says where changes go. A command that does not exit with 0 is run again later \
        with the same batch, whose token it finds in TIDINGS_TOKEN; after some attempts the consumer stalls and says why. \
        --into has each change exactly once, and so has --output; --exec and standard output may repeat the last \
        batch after a crash. SIGTERM and SIGINT end it after the batch under way, with exit code 0. \
        \(ServiceOptions.details)
        """

    static func run(_ arguments: Arguments) async throws {
        let flags = [
            "author": arguments.string("--author"), "consumer.name": arguments.string("--consumer"),
            "consumer.authors": arguments.strings("--only-author")?.joined(separator: ","),
            "consumer.excludingAuthors": arguments.strings("--not-author")?.joined(separator: ","),
        ]
        let settings = try ServiceOptions(arguments, flags: flags)
        let configuration = settings.configuration
        guard let author = configuration.author else {
            throw UsageError("--author is missing: name on whose behalf it reads")
        }
        guard let consumer = configuration.text("consumer.name") else {
            throw UsageError("--consumer is missing: name the consumer, to which its token belongs")
        }
        let broker = try settings.broker(name)
        let logger = settings.logger
        var options = configuration.consumerOptions(logger: logger)
        if let start = arguments.string("--from") { options.start = try parse(start) }
        let target = try ConsumeTarget(arguments)
        let report = arguments.string("--report").map { LagReport(path: $0, logger: logger) }
        let isOnce = arguments.has("--once")
        try await opening(try settings.path(), author: author, configuration.storeOptions) { [options] store in
            let context = try target.context()
            let service = HistoryConsumer(
                store, name: consumer, contexts: [report.map { $0.following(context) } ?? context],
                broker: broker, options: options)
            let group = ServiceGroup([service], logger: logger)
            let head = isOnce ? try await store.currentToken() : nil
            try await Progress.shown({ await progress(service, store) }) {
                try await run(group, service, until: head, within: configuration.shutdownTimeout, target)
            }
            await report?.write()
        }
    }

    /// Runs until a signal; or until a token is reached, which a consumer that stalls never does; or until nobody reads what
    /// is written.
    private static func run(
        _ group: ServiceGroup, _ consumer: HistoryConsumer, until head: HistoryToken?, within bound: Duration,
        _ target: ConsumeTarget
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                while !Task.isCancelled {
                    // Again and again: it may not have begun yet.
                    if target.isClosed { await consumer.stop() }
                    if head != nil, case .stalled(let reason) = consumer.status().state {
                        await consumer.stop()
                        throw CommandError("the consumer has stalled: \(reason)")
                    }
                    try await Task.sleep(for: .milliseconds(50))
                }
            }
            if let head {
                tasks.addTask {
                    try await consumer.waitUntilCaughtUp(to: head)
                    await consumer.stop()
                }
            }
            // Ends when the consumer does.
            try await group.run(within: bound)
            tasks.cancelAll()
            // The others were cancelled, or told that the consumer has stopped.
            while let result = await tasks.nextResult() {
                if case .failure(let error as CommandError) = result { throw error }
            }
        }
    }

    /// How far the consumer has come, in one line.
    private static func progress(_ consumer: HistoryConsumer, _ store: HistoryStore) async -> String? {
        guard let head = try? await store.currentToken() else { return nil }
        let status = consumer.status()
        let behind = status.token.map { "\(max(0, head.sequence - $0.sequence)) behind" } ?? "loading"
        return
            "\(status.counts.transactions) transactions merged, \(behind)\(status.isProtected ? "" : ", unprotected")"
    }

    /// Opens the store to write where this user may: acknowledgements then need no broker.
    private static func opening(
        _ path: String, author: String, _ options: HistoryStore.Options, _ body: (HistoryStore) async throws -> Void
    ) async throws {
        guard access(path, W_OK) == 0 || access(path, F_OK) != 0 else {
            return try await Stores.reading(path, body)
        }
        try await Stores.writing(path, author: author, options: options, body)
    }

    private static func parse(_ text: String) throws(UsageError) -> HistoryConsumer.Start {
        switch text {
        case "snapshot": return .snapshot
        case "beginning": return .beginning
        case "now": return .now
        default:
            guard let token = HistoryToken(text) else {
                throw UsageError("--from expects snapshot, beginning, now or a token, not \(text)")
            }
            return .after(token)
        }
    }
}
