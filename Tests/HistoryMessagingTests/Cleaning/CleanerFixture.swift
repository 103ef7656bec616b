import HistoryMessaging
import PersistentHistory
import Synchronization
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

/// What a cleaner logs and which steps it takes: to look at, and to wait for.
final class CleanerEvents: HistoryLogger {
    private let entries = Mutex<[(level: HistoryLogLevel, message: String, fields: [String: String])]>([])
    private let stream: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation

    init() { (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1)) }

    func log(_ level: HistoryLogLevel, _ entry: () -> HistoryLogEntry) {
        let entry = entry()
        let fields = Dictionary(entry.fields.map { ($0.name, $0.value) }) { $1 }
        if CommandLine.arguments.contains("--verbose") { print("\(ContinuousClock.now)", level, entry.message, fields) }
        entries.withLock { $0.append((level, entry.message, fields)) }
        continuation.yield()
    }

    /// Something has happened.
    func signal() { continuation.yield() }

    /// The entries of a level and higher.
    func messages(from level: HistoryLogLevel) -> [String] {
        entries.withLock { $0.filter { $0.level >= level }.map(\.message) }
    }

    /// Waits until something is true, looking again whenever something happens. For one task.
    func wait(until isTrue: () async throws -> Bool) async throws {
        if try await isTrue() { return }
        for await _ in stream where try await isTrue() { return }
        throw CancellationError()
    }
}

/// A store, its tokens, and a virtual host of the run's broker.
struct CleanerFixture: Sendable {
    let host: TestVirtualHost
    let temporary: TemporaryStore
    let broker: Broker
    let names: BrokerNames
    let events = CleanerEvents()
    /// The tokens of all transactions; that of sequence 1 is the first.
    let tokens: [HistoryToken]

    var store: HistoryStore { temporary.store }

    init(transactions: Int = 20, options: HistoryStore.Options = HistoryStore.Options()) async throws {
        host = try await PrivateBroker.shared().makeVirtualHost()
        temporary = try await TemporaryStore.cleanable(transactions, options: options)
        tokens = try await temporary.transactions().map(\.token)
        broker = try Broker(urls: host.url)
        names = broker.names(for: temporary.store)
    }

    /// Options that tell the fixture's events.
    var options: HistoryCleaner.Options {
        var options = HistoryCleaner.Options()
        options.logger = events
        options.onStep = { [events] _ in events.signal() }
        return options
    }

    /// Runs a cleaner while a closure runs.
    @discardableResult
    func cleaning<Value: Sendable>(
        _ options: HistoryCleaner.Options? = nil, _ body: @Sendable (HistoryCleaner) async throws -> Value
    ) async throws -> Value {
        try await HistoryCleaner(store, broker: broker, options: options ?? self.options).running(body)
    }

    /// Runs a closure as a user of the broker's, nil the one who may do everything. The queues are there.
    func peer<Value: Sendable>(
        _ login: TestVirtualHost.Login? = nil, _ body: @Sendable (CleanerPeer) async throws -> Value
    ) async throws -> Value {
        let login = login ?? host.login
        let configuration = try AMQPConfiguration(urls: login.url, name: "peer")
        return try await AMQPConnection.withConnection(configuration) { connection in
            try await connection.declare(names.cleaning)
            let publisher = await connection.publisher()
            return try await body(
                CleanerPeer(names: names, user: login.user, connection: connection, publisher: publisher))
        }
    }

    /// Registers a consumer as a user of the broker's would, and acknowledges for it.
    func register(_ consumer: String, user: String, acknowledged sequence: Int? = nil) async throws {
        _ = try await store.register(RegistrationRequest(consumer: consumer, author: "orders", user: user))
        guard let sequence else { return }
        try await store.acknowledge(tokens[sequence - 1], consumer: consumer)
    }

    /// Up to where each consumer has acknowledged.
    func acknowledged() async throws -> [String: Int64] {
        var sequences: [String: Int64] = [:]
        for consumer in try await store.consumers() { sequences[consumer.name] = consumer.acknowledged?.sequence }
        return sequences
    }
}

/// Somebody on the other side of the broker.
struct CleanerPeer: Sendable {
    let names: BrokerNames
    let user: String?
    let connection: AMQPConnection
    let publisher: AMQPPublisher

    /// Sends an acknowledgement as a consumer does, or with something about it that is wrong.
    func acknowledge(
        _ token: HistoryToken, as consumer: String, underKeyOf other: String? = nil,
        _ change: (inout AMQPMessage) -> Void = { _ in },
        straight: Bool = false
    ) async throws {
        var message = AcknowledgementMessage(consumer: consumer, author: "orders", token: token).message(user: user)
        change(&message)
        let key = names.acknowledgementKey(consumer: other ?? consumer)
        try await send(
            message,
            to: straight
                ? .queue(names.acknowledgementQueue)
                : AMQPAddress(exchange: names.acknowledgements, routingKey: key))
    }

    /// Sends an acknowledgement until the broker has it for somebody.
    func acknowledgeUntilTaken(_ token: HistoryToken, as consumer: String) async throws {
        let message = AcknowledgementMessage(consumer: consumer, author: "orders", token: token).message(user: user)
        let key = names.acknowledgementKey(consumer: consumer)
        let address = AMQPAddress(exchange: names.acknowledgements, routingKey: key)
        while try await publisher.publish(message, to: address) != .confirmed {}
    }

    func send(_ message: AMQPMessage, to address: AMQPAddress) async throws {
        #expect(try await publisher.publish(message, to: address) == .confirmed)
    }

    /// Asks a service for something and gives its reply.
    func request(
        _ command: String, _ arguments: [String: ControlValue] = [:], id: String? = nil, service: String = "cleaner",
        _ change: (inout AMQPMessage) -> Void = { _ in }
    ) async throws -> ControlReply {
        var message = ControlRequest(command, arguments: arguments).message(user: user)
        message.properties.messageID = id
        change(&message)
        let address = AMQPAddress(
            exchange: names.control, routingKey: names.controlKey(service: service, command: command))
        let request = message
        return try await AMQPRequester.withRequester(on: connection, replyExchange: names.replies) { requester in
            let reply = try await requester.request(request, to: address, within: .seconds(20))
            return try ControlReply(decoding: reply.body)
        }
    }

    /// The deliveries of the dead ones, and of what is announced.
    func watch() async throws -> (dead: AMQPConsumer, announced: AMQPConsumer) {
        let queue = AMQPQueue("announced", arguments: ["x-expires": 60_000])
        try await connection.declare(
            AMQPTopology(
                queues: [queue],
                bindings: [AMQPBinding(queue: queue.name, exchange: names.notify, key: "notify.\(names.store).#")]))
        return (try await connection.consume(names.deadQueue), try await connection.consume(queue.name))
    }
}

extension AMQPConsumer {
    /// Reads and acks a number of messages.
    func messages(_ count: Int) async throws -> [AMQPMessage] {
        var messages: [AMQPMessage] = []
        let iterator = makeAsyncIterator()
        while messages.count < count, let delivery = try await iterator.next() {
            delivery.ack()
            messages.append(delivery.message)
        }
        return messages
    }
}

extension AMQPMessage {
    /// The text of a header.
    func header(_ name: String) -> String? {
        if case .string(let text)? = properties.headers[name] { text } else { nil }
    }

    /// The body as text.
    var text: String { String(decoding: body, as: UTF8.self) }
}

extension HistoryCleaner {
    /// Runs while a closure runs; then it is stopped.
    @discardableResult
    func running<Value: Sendable>(
        _ body: @Sendable (HistoryCleaner) async throws -> Value
    ) async throws -> Value {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await self.run() }
            do {
                // Stopping what has not begun would end nothing.
                while await !status().isRunning { await Task.yield() }
                let value = try await body(self)
                await stop()
                try await group.waitForAll()
                return value
            } catch {
                group.cancelAll()
                throw error
            }
        }
    }
}

extension TemporaryStore {
    /// A store with a number of transactions, that of tracking included.
    static func cleanable(
        _ transactions: Int, options: HistoryStore.Options = HistoryStore.Options()
    ) async throws -> TemporaryStore {
        let temporary = try await TemporaryStore(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)", options: options)
        for number in 1..<max(2, transactions) { try await temporary.write("INSERT INTO t(v) VALUES (\(number))") }
        return temporary
    }

    /// The last purged sequence, and whether the rest of the history is whole behind it.
    func purged() async throws -> (mark: HistoryToken, isWhole: Bool) {
        try await store.observe { database, state in
            let numbers = try database.query(
                "SELECT count(*), coalesce(min(sequence), 0), coalesce(max(sequence), 0) FROM history_transaction"
            ) { row in
                (try row.get(0, as: Int64.self), try row.get(1, as: Int64.self), try row.get(2, as: Int64.self))
            }
            let (count, first, last) = numbers[0]
            let isWhole = count == 0 || (first == state.purgedSequence + 1 && last - first + 1 == count)
            return (state.mark, isWhole)
        }
    }
}
