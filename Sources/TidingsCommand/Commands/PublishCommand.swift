import HistoryMessaging
import PersistentHistory
import TidingsAMQP
import TidingsServices

enum PublishCommand: Subcommand {
    static let name = "publish"
    static let summary = "Publish what has not been published yet"
    static let options =
        ServiceOptions.options + [
            .value("--timeout", "SECONDS", "give up where the broker has not confirmed all after so long (60)")
        ]
    static let details = """
        Publishes all transactions up to the newest one at the start that no broker has confirmed, and prints the \
        sequence up to which everything is published. Where `tidings serve` runs it does the same by itself. SIGTERM and \
        SIGINT end it once what is on its way is confirmed, within shutdownTimeout and with exit code 0; what is left is told \
        on standard error. \(ServiceOptions.details)
        """

    static func run(_ arguments: Arguments) async throws {
        let settings = try ServiceOptions(arguments)
        let broker = try settings.requiredBroker(name)
        let logger = settings.quietLogger
        let bound = try arguments.integer("--timeout", minimum: 1) ?? 60
        try await settings.writing { store in
            var options = settings.configuration.relayOptions(logger: logger)
            options.grace = .zero
            let relay = HistoryRelay(store, broker: broker, options: options)
            let head = try await store.currentToken().sequence
            let mark = StopMark()
            let failure = try await withThrowingTaskGroup(of: (any Error)?.self) { tasks in
                tasks.addTask {
                    let failure = await waitUntilPublished(head, store, relay, within: .seconds(bound), or: mark)
                    // Again and again: they may not have begun yet.
                    while !Task.isCancelled {
                        await mark.stop()
                        await relay.stop()
                        try? await Task.sleep(for: .milliseconds(20))
                    }
                    return failure
                }
                // Ends when the relay does: everything is published, it took too long, or a signal came.
                try await ServiceGroup([relay, mark], logger: logger)
                    .run(within: settings.configuration.shutdownTimeout)
                tasks.cancelAll()
                return try await tasks.next() ?? nil
            }
            if let failure { throw failure }
            let published = try await store.info().publishedSequence ?? 0
            if published < head {
                Output.error(
                    "tidings publish: stopped: published \(published) of \(head); the rest is left to `tidings serve` or the "
                        + "next `tidings publish`")
            }
            Output.line(String(published))
        }
    }

    /// Waits until everything is published, or a signal has come. Returns why it waits no more, where that is another reason.
    private static func waitUntilPublished(
        _ head: Int64, _ store: HistoryStore, _ relay: HistoryRelay, within bound: Duration, or mark: StopMark
    ) async -> (any Error)? {
        let end = ContinuousClock.now + bound
        var progress = Progress()
        defer { progress.clear() }
        do {
            while !mark.isStopping {
                let published = try await store.observe { _, state in state.publishedSequence } ?? 0
                if published >= head { return nil }
                progress.show("published \(published) of \(head)")
                guard ContinuousClock.now < end else {
                    let state = await relay.status().broker.map { "\($0)" } ?? "not there"
                    return CommandError("published \(published) of \(head) within \(bound): the broker is \(state)")
                }
                try await Task.sleep(for: .milliseconds(20))
            }
            return nil
        } catch {
            // A cancellation: the services' own end counts.
            return error is CancellationError ? nil : error
        }
    }
}

/// Among services, the one that knows whether they were asked to end.
private final class StopMark: HistoryService {
    let serviceName = "publish"
    private let state = Locked(false)

    var isStopping: Bool { state.withLock { $0 } }

    func run() async throws {
        while !isStopping { try await Task.sleep(for: .milliseconds(20)) }
    }

    func stop() async { state.withLock { $0 = true } }
}
