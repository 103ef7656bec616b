import FoundationEssentials
import HistoryMessaging
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

/// A store, a virtual host, and a queue in it that gets all history.
struct PublishingFixture {
    static let schema = "CREATE TABLE item(id INTEGER PRIMARY KEY, v)"

    let host: TestVirtualHost
    let temporary: TemporaryStore
    let broker: Broker

    var store: HistoryStore { temporary.store }
    var path: String { temporary.path }

    /// - Parameters:
    ///   - shared: nil is the broker of the whole run.
    ///   - isBound: false leaves the queue out.
    init(
        on shared: PrivateBroker? = nil, isBound: Bool = true, options: HistoryStore.Options = HistoryStore.Options()
    ) async throws {
        let server: PrivateBroker
        if let shared { server = shared } else { server = try await PrivateBroker.shared() }
        host = try await server.makeVirtualHost()
        temporary = try await TemporaryStore(schema: Self.schema, options: options)
        var configuration = try AMQPConfiguration(urls: host.url, name: "test")
        configuration.recovery = .always(Backoff(first: .milliseconds(50), longest: .milliseconds(200)))
        configuration.sendTimeout = .seconds(3)
        broker = Broker(configuration)
        if isBound { try await bind() }
    }

    private func connected<Value: Sendable>(
        _ body: @Sendable (AMQPConnection) async throws -> Value
    ) async throws -> Value {
        try await AMQPConnection.withConnection(try AMQPConfiguration(urls: host.url, name: "test"), body)
    }

    /// Makes the queue.
    func bind() async throws {
        let names = broker.names(for: store)
        try await connected { connection in
            var topology = names.publishing
            topology.queues = [AMQPQueue("all")]
            topology.bindings = [AMQPBinding(queue: "all", exchange: names.history, key: names.allHistory)]
            try await connection.declare(topology)
        }
    }

    /// Takes all messages that are in the queue.
    func messages() async throws -> [AMQPMessage] {
        try await connected { connection in
            let count = try await connection.inspect(queue: "all").messages
            let iterator = try await connection.consume("all").makeAsyncIterator()
            var messages: [AMQPMessage] = []
            while messages.count < count, let delivery = try await iterator.next() {
                delivery.ack()
                messages.append(delivery.message)
            }
            return messages
        }
    }

    /// The tokens of all messages that are in the queue, decoded and checked against their properties.
    func publishedTokens() async throws -> [HistoryToken] {
        try await messages().map { message in
            let token = try HistoryMessageHeader(decoding: message.body).token
            let identity = "\(token.storeID.uuidString.lowercased()):\(token.epoch):\(token.sequence)"
            #expect(message.properties.messageID == identity)
            #expect(message.properties.isPersistent)
            return token
        }
    }

    /// The tokens of all transactions that are in the store.
    func committedTokens() async throws -> [HistoryToken] {
        var tokens: [HistoryToken] = []
        for try await transaction in store.transactions() { tokens.append(transaction.token) }
        return tokens
    }

    /// Writes transactions of one row each; gives the last token.
    @discardableResult
    func insert(_ count: Int, into other: HistoryStore? = nil, origin: HistoryOrigin? = nil) async throws
        -> HistoryToken
    {
        var last = try await store.currentToken()
        for number in 0..<count {
            let result = try await (other ?? store).write(origin: origin) { db in
                try db.execute("INSERT INTO item(v) VALUES (?)", number)
            }
            last = try #require(result.token)
        }
        return last
    }

    /// Writes transactions of one row each as long as something holds; gives the last token.
    func insert(while holds: @Sendable () -> Bool) async throws -> HistoryToken {
        var last = try await insert(1)
        while holds(), !Task.isCancelled { last = try await insert(1) }
        return last
    }

    /// The row of an origin in `history_publisher`.
    func row(of origin: HistoryOrigin) async throws -> PublisherRecord? {
        try await store.observe { database, _ in try PublisherRecord.of(origin.description, database) }
    }

    /// What the store has recorded as published; nil where it is not published.
    func publishedSequence() async throws -> Int64? { try await store.info().publishedSequence }
}

/// Runs services as long as a closure runs, then stops them. What one of them throws ends the closure: it would else wait
/// for what nobody does any more.
func withServices<Value: Sendable>(
    _ services: any HistoryService..., body: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    try await withThrowingTaskGroup(of: Value?.self) { group in
        for service in services {
            group.addTask {
                try await service.run()
                return nil
            }
        }
        group.addTask { try await body() }
        var value: Value?
        while let ended = try await group.next() {
            guard let ended else { continue }
            value = ended
            for service in services { await service.stop() }
        }
        return try #require(value)
    }
}

/// Waits until something holds. For what nothing tells of; each look is a request of its own. What does not come to hold
/// within a minute is told with its place.
func until(
    sourceLocation: SourceLocation = #_sourceLocation, _ condition: @Sendable () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + .seconds(60)
    while try await !condition() {
        try #require(ContinuousClock.now < deadline, "does not come to hold", sourceLocation: sourceLocation)
        try await Task.sleep(for: .milliseconds(5))
    }
}
