import Glibc
import HistoryMessaging
import PersistentHistory
import TidingsSQLite
import TidingsServices

enum ExecCommand: Subcommand {
    static let name = "exec"
    static let summary = "Run SQL in tracked transactions"
    static let operands: [Operand] = [
        .leadingDatabase,
        .any("SQL", "each is one transaction and may hold several statements; without any, standard input is one"),
    ]
    static let options: [Option] =
        [
            .value("--author", "NAME", "who writes; without it the configured author"),
            .value("--context", "NAME", "which part of the author writes"),
        ] + ServiceOptions.options
    static let details = """
        Prints the sequence of each transaction, or - where nothing that is tracked changed. Rows of queries are \
        not printed. The first transaction that fails is rolled back and ends the run; those before it stay. Where a \
        broker is configured they are published at once; where it is not there within five seconds, that is left to \
        `tidings serve` or `tidings publish`. \(ServiceOptions.details)
        """
    /// How long the broker is waited for: what is committed is safe, and others publish it too.
    private static let publishTimeout: Duration = .seconds(5)

    static func run(_ arguments: Arguments) async throws {
        let settings = try ServiceOptions(arguments)
        let configuration = settings.configuration
        guard let author = arguments.string("--author") ?? configuration.author else {
            throw UsageError("--author NAME is required: who writes")
        }
        let context = arguments.string("--context") ?? configuration.contextName
        if let context, context.allSatisfy(\.isWhitespace) {
            throw UsageError("--context is empty: leave it out, or name which part of the author writes")
        }
        // Before standard input is read, which a person would be waited for.
        _ = try settings.path()
        let broker = try settings.broker(name)
        let scripts = try scripts(arguments)
        try await settings.writing(author: author) { store in
            guard broker.configuration != nil else { return try await run(scripts, context, store) }
            let publisher = HistoryPublisher(
                store, broker: broker, options: configuration.publisherOptions(logger: SilentLogger()))
            try await withRunning(publisher) {
                // What was committed before a failure is published all the same.
                do {
                    try await run(scripts, context, store)
                } catch {
                    await publish(store, publisher)
                    throw error
                }
                await publish(store, publisher)
            }
        }
    }

    /// The transactions to run, with what they are called in errors.
    private static func scripts(_ arguments: Arguments) throws(CommandError) -> [(sql: String, place: String)] {
        let scripts = arguments.furtherOperands
        guard !scripts.isEmpty else { return [(try standardInput(), "standard input")] }
        return scripts.enumerated().map { ($1, "argument \($0 + 1) of \(scripts.count)") }
    }

    private static func run(
        _ scripts: [(sql: String, place: String)], _ context: String?, _ store: HistoryStore
    ) async throws {
        for script in scripts { try await run(script.sql, script.place, context, store) }
    }

    /// Waits until the broker has what was committed, but not for long.
    private static func publish(_ store: HistoryStore, _ publisher: HistoryPublisher) async {
        let isPublished = await withTaskGroup(of: Bool.self) { tasks in
            tasks.addTask {
                guard let head = try? await store.currentToken() else { return false }
                return (try? await publisher.waitUntilPublished(through: head)) != nil
            }
            tasks.addTask {
                try? await Task.sleep(for: publishTimeout)
                return false
            }
            defer { tasks.cancelAll() }
            return await tasks.next() ?? false
        }
        guard !isPublished else { return }
        let state = await publisher.status().broker.map { "\($0)" } ?? "not there"
        Output.error(
            "tidings exec: committed, but not published yet (the broker: \(state)); `tidings serve` or "
                + "`tidings publish` will")
    }

    private static func run(_ sql: String, _ place: String, _ context: String?, _ store: HistoryStore) async throws {
        do {
            let token = try await store.write(context: context) { db in try db.execute(sql) }.token
            Output.line(token.map { String($0.sequence) } ?? "-")
            // At once: whoever reads must know what was committed, whatever becomes of the rest.
            Output.flush()
        } catch {
            let text = CommandError.text(of: error, in: store.path)
            throw CommandError("\(place) was rolled back: \(text)\(remedy(for: error))")
        }
    }

    /// What to do instead, where SQLite itself refuses something in any transaction.
    private static func remedy(for error: any Error) -> String {
        guard let error = error as? SQLiteError, error.message == "cannot VACUUM from within a transaction" else {
            return ""
        }
        return ": it changes no rows, so run it with `sqlite3 DB VACUUM`"
    }

    private static func standardInput() throws(CommandError) -> String {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(STDIN_FILENO, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else {
                throw CommandError("cannot read standard input: \(String(cString: strerror(errno)))")
            }
            if count == 0 { break }
            bytes += buffer[..<count]
        }
        guard let sql = String(validating: bytes, as: UTF8.self) else {
            throw CommandError("standard input is not valid UTF-8: convert it first")
        }
        return sql
    }
}
