internal import PersistentHistory
internal import TidingsAMQP

/// A consumer's two connections: deliveries come over one, acknowledgements and dead messages go over the other, since a
/// broker under an alarm stops reading from those that publish.
struct BrokerLink: Sendable {
    let names: BrokerNames
    /// The user that the broker sees; nil where a certificate tells it.
    let user: String?
    let consuming: AMQPConnection
    let publishing: AMQPConnection

    /// Makes the connections; nil where there is no broker. Nothing is sent before ``run()``.
    init?(_ broker: Broker, store: HistoryStore, consumer: String) throws {
        guard let consuming = try broker.connection("\(consumer) deliveries"),
            let publishing = try broker.connection("\(consumer) acknowledgements")
        else { return nil }
        names = broker.names(for: store)
        user = broker.user
        self.consuming = consuming
        self.publishing = publishing
    }

    /// Serves both connections until they are closed.
    func run() async {
        await withTaskGroup(of: Void.self) { group in
            for connection in [consuming, publishing] { group.addTask { try? await connection.run() } }
        }
    }

    /// Says goodbye to the broker; sends the last acks.
    func close() async {
        await withTaskGroup(of: Void.self) { group in
            for connection in [consuming, publishing] { group.addTask { await connection.close() } }
        }
    }

    /// Declares what is needed on the publishing connection, again until the broker agrees. False at its end.
    func declareExchanges(_ options: HistoryConsumer.Options) async -> Bool {
        await insist("declaring exchanges", options) {
            try await publishing.waitUntilOpen(within: .seconds(3600))
            try await publishing.declare(names.publishing)
        }
    }

    /// Tries until it goes well, with pauses in between; logs what goes wrong. False where there is no use any more.
    func insist(
        _ doing: String, _ options: HistoryConsumer.Options, _ body: () async throws -> Void
    ) async -> Bool {
        var attempt = 0
        while !Task.isCancelled {
            do {
                try await body()
                return true
            } catch {
                if let error = error as? AMQPError, error.code == .closed { return false }
                if Task.isCancelled { return false }
                attempt += 1
                options.log(.warning, "\(doing) failed: \(error)", [("attempt", "\(attempt)")])
                try? await Task.sleep(for: options.retry.delay(attempt: attempt, random: .random(in: 0..<1)))
            }
        }
        return false
    }
}
