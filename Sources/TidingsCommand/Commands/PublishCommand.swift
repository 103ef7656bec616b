import HistoryMessaging
import PersistentHistory
import TidingsServices

enum PublishCommand: Subcommand {
    static let name = "publish"
    static let summary = "Publish what has not been published yet"
    static let operands = [Operand.configuredDatabase]
    static let options =
        ServiceOptions.options + [
            .value("--timeout", "SECONDS", "give up where the broker has not confirmed all after so long (60)")
        ]
    static let details = """
        Publishes all transactions up to the newest one at the start that no broker has confirmed, and prints the \
        sequence up to which everything is published. Where `tidings serve` runs it does the same by itself. \
        \(ServiceOptions.details)
        """

    static func run(_ arguments: Arguments) async throws {
        let settings = try ServiceOptions(arguments)
        let broker = try settings.requiredBroker(name)
        let logger = settings.quietLogger
        let bound = try arguments.integer("--timeout", minimum: 1) ?? 60
        try await Stores.writing(try settings.path()) { store in
            var options = settings.configuration.relayOptions(logger: logger)
            options.grace = .zero
            let relay = HistoryRelay(store, broker: broker, options: options)
            let head = try await store.currentToken().sequence
            try await withRunning(relay, logger: logger) {
                try await waitUntilPublished(head, store, relay, within: .seconds(bound))
            }
            Output.line(String(try await store.info().publishedSequence ?? 0))
        }
    }

    private static func waitUntilPublished(
        _ head: Int64, _ store: HistoryStore, _ relay: HistoryRelay, within bound: Duration
    ) async throws {
        let end = ContinuousClock.now + bound
        var progress = Progress()
        defer { progress.clear() }
        while true {
            let published = try await store.observe { _, state in state.publishedSequence } ?? 0
            if published >= head { return }
            progress.show("published \(published) of \(head)")
            guard ContinuousClock.now < end else {
                let state = await relay.status().broker.map { "\($0)" } ?? "not there"
                throw CommandError("published \(published) of \(head) within \(bound): the broker is \(state)")
            }
            try await Task.sleep(for: .milliseconds(20))
        }
    }
}
