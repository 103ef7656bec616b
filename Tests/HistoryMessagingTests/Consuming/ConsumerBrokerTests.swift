import HistoryMessaging
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

/// A store, a virtual host, and what it takes to publish and to look into queues.
struct BrokerFixture {
    let fixture: ConsumerFixture
    let privateBroker: PrivateBroker
    let host: TestVirtualHost
    let broker: Broker
    let names: BrokerNames
    var store: HistoryStore { fixture.store }

    init(on given: PrivateBroker? = nil) async throws {
        fixture = try await ConsumerFixture()
        if let given { privateBroker = given } else { privateBroker = try await PrivateBroker.shared() }
        host = try await privateBroker.makeVirtualHost()
        var configuration = try AMQPConfiguration(urls: host.url, name: "test")
        configuration.recovery = .always(Backoff(first: .milliseconds(50), longest: .milliseconds(300)))
        broker = Broker(configuration, storeName: "crash")
        names = broker.names(for: fixture.store)
    }

    /// Options under which only deliveries wake a consumer.
    func options(_ change: (inout HistoryConsumer.Options) -> Void = { _ in }) -> HistoryConsumer.Options {
        fixture.options { options in
            options.pollInterval = .seconds(3600)
            change(&options)
        }
    }

    func connected<Value: Sendable>(_ body: @Sendable (AMQPConnection) async throws -> Value) async throws -> Value {
        try await AMQPConnection.withConnection(AMQPConfiguration(urls: host.url, name: "test"), body)
    }

    /// Waits until so many messages of a queue wait for a consumer.
    func wait(for count: Int, in queue: String) async throws {
        try await until { try await privateBroker.queueLength(queue, virtualHost: host.name) == count }
    }
}

extension BrokerFixture {
    /// Waits until the broker keeps so many messages for a queue, delivered ones that are not settled included.
    func wait(forUnsettled count: Int, in queue: String) async throws {
        try await until { try await privateBroker.unsettled(queue, host: host.name) == count }
    }
}

@Suite("Consumer with a broker", .timeLimit(.minutes(3)))
struct ConsumerBrokerTests {
    @Test("P24, PHT17: a delivery wakes it; the token is merged, the delivery acked, the cleaner told, by its own user")
    func wholePath() async throws {
        let fixture = try await BrokerFixture()
        let names = fixture.names
        let context = RecordingContext()
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [context], broker: fixture.broker, options: fixture.options())
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        let head = try await fixture.connected { connection in
            try await connection.declare(names.cleaning)
            try await connection.declare(names.consuming(as: "c"))
            return try await withServices(publisher, consumer) {
                // The transaction of the tracking: consuming has begun.
                try await until { consumer.status().counts.deliveries == 1 }
                // Nobody waits, so that nothing but a delivery wakes it.
                let token = try await fixture.fixture.insert(3)
                try await until { consumer.status().acknowledged == token }
                #expect(consumer.status().counts.deliveries == 4)
                return token
            }
        }
        #expect(context.sequences == [1, 2, 3, 4])
        try await fixture.wait(for: 0, in: names.queue(of: "c"))
        let last = try await fixture.connected { connection in
            var newest: AMQPDelivery?
            let count = try await connection.inspect(queue: names.acknowledgementQueue).messages
            for delivery in try await connection.consume(names.acknowledgementQueue).take(count) { newest = delivery }
            return try #require(newest)
        }
        #expect(last.message.properties.userID == fixture.host.user)
        #expect(last.address.routingKey == "ack.crash.c")
        #expect(
            try AcknowledgementMessage(decoding: last.message.body)
                == AcknowledgementMessage(consumer: "c", author: "orders", token: head))
    }

    @Test("P15: a reply to the registration that cannot be read is counted and logged, and the cleaner is asked again")
    func malformedReply() async throws {
        let fixture = try await BrokerFixture()
        let names = fixture.names
        let events = CleanerEvents()
        let consumer = HistoryConsumer(
            fixture.store, name: "c", broker: fixture.broker,
            options: fixture.options {
                $0.registrationWait = .zero
                $0.logger = events
            })
        try await fixture.connected { connection in
            try await connection.declare(names.cleaning)
            let publisher = await connection.publisher()
            let requests = try await connection.consume(names.controlQueue(of: "cleaner"))
            try await withServices(consumer) {
                let iterator = requests.makeAsyncIterator()
                let first = try #require(try await iterator.next())
                first.ack()
                let rubbish = AMQPMessage(Array("{\"ok\": true,".utf8))
                #expect(try await publisher.reply(rubbish, to: first, exchange: names.replies) == .confirmed)
                try await until { consumer.status().counts.malformedReplies == 1 }
                #expect(!consumer.status().isProtected)
                let second = try #require(try await iterator.next())
                second.ack()
                _ = try await fixture.store.register(
                    RegistrationRequest(consumer: "c", author: "orders", user: fixture.host.user))
                let reply = ControlReply(isOK: true, service: "cleaner", message: "registered")
                    .message(answering: second.message)
                #expect(try await publisher.reply(reply, to: second, exchange: names.replies) == .confirmed)
                try await until { consumer.status().isProtected }
            }
        }
        #expect(consumer.status().counts.malformedReplies == 1)
        let told = events.messages(from: .warning).filter { $0.hasPrefix("a reply to the registration cannot be read") }
        #expect(told.count == 1)
    }

    @Test(
        "P15: what is no history of this store is kept among the dead messages with its reason, and the service goes on"
    )
    func poison() async throws {
        let fixture = try await BrokerFixture()
        let names = fixture.names
        let consumer = HistoryConsumer(fixture.store, name: "c", broker: fixture.broker, options: fixture.options())
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        let other = try await ConsumerFixture()
        try await other.insert()
        let foreign = try #require(try await other.store.transaction(2))
        var encoder = HistoryMessageEncoder(names: names, user: nil)
        let foreignBody = try await encoder.encode(foreign, previousNonce: 1).message.body
        let key = names.historyKey(author: "orders")
        let bodies: [[UInt8]] = [
            [], Array("not JSON".utf8), Array("{}".utf8), foreignBody,
            Array(repeating: 0x5B, count: 100_000), Array(repeating: 0x41, count: 3 << 20),
            Array(String(decoding: foreignBody, as: UTF8.self).replacing("\"1.0\"", with: "\"9.0\"").utf8),
        ]
        let (dead, token) = try await fixture.connected { connection in
            try await connection.declare(names.consuming(as: "c"))
            let poisoner = await connection.publisher()
            for body in bodies {
                let message = AMQPMessage(body, properties: AMQPProperties(messageID: "poison"))
                let address = AMQPAddress(exchange: names.history, routingKey: key)
                #expect(try await poisoner.publish(message, to: address) == .confirmed)
            }
            // Past the exchange, straight into the queue.
            _ = try await poisoner.publish(AMQPMessage(foreignBody), to: .queue(names.queue(of: "c")))
            let token = try await withServices(publisher, consumer) {
                try await until { consumer.status().counts.dead == bodies.count + 1 }
                let token = try await fixture.fixture.insert()
                try await consumer.waitUntilCaughtUp(to: token)
                return token
            }
            return (try await connection.consume(names.deadQueue).take(bodies.count + 1), token)
        }
        #expect(consumer.status().token == token)
        func header(_ name: String, _ index: Int) -> AMQPValue? {
            dead[index].message.properties.headers["tidings-\(name)"]
        }
        #expect([0, 1, 2, 4, 5].map { header("reason", $0) } == Array(repeating: "malformed", count: 5))
        #expect(header("reason", 3) == "foreignStore")
        #expect(header("detail", 3) == .string("it is of store \(other.store.storeID)"))
        #expect(header("reason", 6) == "foreignVersion")
        #expect(header("reason", 7) == "foreignExchange")
        #expect(header("detail", 7) == "it came by the exchange ''")
        #expect(header("key", 0) == .string(key))
        #expect(header("exchange", 0) == .string(names.history))
        #expect(header("service", 0) == "consumer")
        #expect(header("size", 0) == nil)
        #expect(dead[5].message.body.count == 64 << 10)
        #expect(header("size", 5) == .integer(3 << 20))
        try await fixture.wait(for: 0, in: names.queue(of: "c"))
    }

    @Test(
        "P15: a refused message that cannot be sent to the dead ones now is sent once it can be, and so are later ones")
    func deadLetterTrouble() async throws {
        let fixture = try await BrokerFixture()
        let names = fixture.names
        let events = CleanerEvents()
        // More often than a letter is tried that the broker refuses.
        let failures = Locked(5)
        let consumer = HistoryConsumer(
            fixture.store, name: "c", broker: fixture.broker,
            options: fixture.options { options in
                options.logger = events
                options.onDeadLetter = {
                    let isFailing = failures.withLock { left in
                        defer { left -= 1 }
                        return left > 0
                    }
                    if isFailing { throw AMQPError(.resources, "no channel left") }
                }
            })
        let dead = try await fixture.connected { connection in
            try await connection.declare(names.consuming(as: "c"))
            let poisoner = await connection.publisher()
            let address = AMQPAddress(exchange: names.history, routingKey: names.historyKey(author: "orders"))
            return try await withServices(consumer) {
                for identity in ["first", "second"] {
                    let poison = AMQPMessage([], properties: AMQPProperties(messageID: identity))
                    #expect(try await poisoner.publish(poison, to: address) == .confirmed)
                }
                try await fixture.wait(for: 2, in: names.deadQueue)
                try await fixture.wait(forUnsettled: 0, in: names.queue(of: "c"))
                return try await connection.consume(names.deadQueue).take(2)
            }
        }
        #expect(dead.map(\.message.properties.messageID) == ["first", "second"])
        #expect(failures.withLock { $0 } == -2)
        let warnings = events.messages(from: .warning).filter { $0.hasPrefix("sending a refused message") }
        #expect(warnings.count == 5)
    }

    @Test("P27: a message of a transaction that the store does not hold is counted, and merged by nobody")
    func forged() async throws {
        let fixture = try await BrokerFixture()
        let names = fixture.names
        let context = RecordingContext()
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [context], broker: fixture.broker, options: fixture.options())
        let head = try await fixture.fixture.insert()
        // A copy of the store, in which one transaction more was published before the power went.
        let directory = try TemporaryDirectory()
        try await fixture.store.backUp(to: directory.file("copy.db"))
        let lost = try await HistoryStore.open(directory.file("copy.db"), author: "orders")
        try await fixture.fixture.insert(into: lost)
        let transaction = try #require(try await lost.transaction(3))
        var encoder = HistoryMessageEncoder(names: names, user: nil)
        let message = try await encoder.encode(transaction, previousNonce: head.nonce).message
        try await fixture.connected { connection in
            try await connection.declare(names.consuming(as: "c"))
            let address = AMQPAddress(exchange: names.history, routingKey: names.historyKey(author: "orders"))
            #expect(try await connection.publisher().publish(message, to: address) == .confirmed)
        }
        try await withServices(consumer) {
            try await until { consumer.status().counts.beyondHead == 1 }
            try await consumer.waitUntilCaughtUp(to: head)
        }
        #expect(context.sequences == [1, 2])
        #expect(consumer.status().token == head)
        try await fixture.wait(for: 0, in: names.queue(of: "c"))
    }

    @Test("Unprotected until a cleaner turns up; then registered, and what it acknowledges is in the store")
    func registration() async throws {
        let fixture = try await BrokerFixture()
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [MirrorContext()], broker: fixture.broker,
            options: fixture.options { $0.registrationWait = .milliseconds(50) })
        let head = try await fixture.fixture.insert(2)
        let cleaner = HistoryCleaner(fixture.store, broker: fixture.broker)
        try await withServices(consumer) {
            try await consumer.waitUntilCaughtUp(to: head)
            #expect(!consumer.status().isProtected)
            try await withServices(cleaner) {
                try await until { consumer.status().isProtected }
                let token = try await fixture.fixture.insert()
                try await consumer.waitUntilCaughtUp(to: token)
                try await until { try await fixture.store.consumers().first?.acknowledged == token }
            }
        }
        let record = try #require(try await fixture.store.consumers().first)
        #expect(record.name == "c")
        #expect(record.author == "orders")
        #expect(record.role == "required")
        // Known to the store: protected at once, without a cleaner.
        let again = HistoryConsumer(fixture.store, name: "c", broker: fixture.broker, options: fixture.options())
        try await withServices(again) {
            try await again.waitUntilCaughtUp(to: fixture.store.currentToken())
            #expect(again.status().isProtected)
        }
    }

    @Test("PHT22: two consumers of one author acknowledge separately")
    func separateAcknowledgements() async throws {
        let fixture = try await BrokerFixture()
        let cleaner = HistoryCleaner(fixture.store, broker: fixture.broker)
        let consumers = ["a", "b"].map {
            HistoryConsumer(
                fixture.store, name: $0, contexts: [RecordingContext()], broker: fixture.broker,
                options: fixture.options { $0.registrationWait = .seconds(20) })
        }
        try await withServices(cleaner) {
            var tokens: [HistoryToken] = []
            for consumer in consumers {
                let token = try await fixture.fixture.insert()
                tokens.append(token)
                try await withServices(consumer) {
                    try await consumer.waitUntilCaughtUp(to: token)
                    try await until {
                        try await fixture.store.consumers().contains {
                            $0.name == consumer.name && $0.acknowledged == token
                        }
                    }
                }
            }
            #expect(try await fixture.store.consumers().map(\.acknowledged) == tokens)
        }
    }

    @Test("P32: with a broker too, threads and descriptors equal the start after runs and stops")
    func resources() async throws {
        let fixture = try await BrokerFixture()
        let names = fixture.names
        try await fixture.fixture.insert(2)
        try await fixture.connected { try await $0.declare(names.cleaning) }
        let child = try ChildProcess(
            ChildProcess.built("TestAgent"),
            ["consumer", "resources", fixture.fixture.temporary.path, "3", fixture.host.url])
        let (lines, ending) = await child.output()
        #expect(ending == .exited(0))
        try #require(lines.count == 2)
        #expect(lines[1].split(separator: " ").dropFirst() == lines[0].split(separator: " ").dropFirst())
    }
}

extension HistoryStore {
    /// Copies the store, as it is now, to another file.
    fileprivate func backUp(to path: String) async throws {
        let connection = try await SQLiteConnection.open(self.path)
        try await connection.run { db in try db.execute("VACUUM INTO ?", path) }
        await connection.close()
        let copy = try await SQLiteConnection.open(path)
        try await copy.run { db in try db.execute("PRAGMA journal_mode = WAL") }
        await copy.close()
    }
}

extension AMQPConsumer {
    /// Reads and acks a number of deliveries.
    func take(_ count: Int) async throws -> [AMQPDelivery] {
        var deliveries: [AMQPDelivery] = []
        let iterator = makeAsyncIterator()
        while deliveries.count < count, let delivery = try await iterator.next() {
            delivery.ack()
            deliveries.append(delivery)
        }
        return deliveries
    }
}
