import HistoryMessaging
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsTestKit

/// What takes a broker of its own: one that is slow to forgive, and one that dies.
@Suite("Consumer and a broker that fails", .serialized, .timeLimit(.minutes(5)))
struct ConsumerOutageTests {
    @Test("P16: a merge that takes longer than the broker's delivery timeout: survived, and no double effect")
    func deliveryTimeout() async throws {
        let broker = try await PrivateBroker.start(.init(settings: ["consumer_timeout": "1000"]))
        // The broker looks each so many milliseconds.
        _ = try await broker.evaluate("application:set_env(rabbit, channel_tick_interval, 500)")
        let fixture = try await BrokerFixture(on: broker)
        let names = fixture.names
        // The queue is there before anything is published.
        try await fixture.connected { try await $0.declare(names.consuming(as: "c")) }
        let context = RecordingContext()
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [context], broker: fixture.broker, options: fixture.options())
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        let calls = Locked(0)
        // It merges until the broker has lost patience, and delivered again: there are two transactions only.
        await consumer.observe("article", .insert) { _ in
            calls.withLock { $0 += 1 }
            try await until { consumer.status().counts.deliveries >= 3 }
        }
        try await withServices(publisher, consumer) {
            try await until { consumer.status().broker == .open }
            let token = try await fixture.fixture.insert()
            try await consumer.waitUntilCaughtUp(to: token)
            await consumer.removeAllObservers()
            let next = try await fixture.fixture.insert()
            try await consumer.waitUntilCaughtUp(to: next)
            try await fixture.wait(forUnsettled: 0, in: names.queue(of: "c"))
        }
        #expect(context.sequences == [1, 2, 3])
        #expect(calls.withLock { $0 } == 1)
        #expect(consumer.status().counts.failures == 0)
        await broker.shutDown()
    }

    @Test(
        "P8: the broker is killed, and comes back: meanwhile it polls, afterwards deliveries wake it, nothing is missed"
    )
    func outage() async throws {
        let broker = try await PrivateBroker.start()
        let fixture = try await BrokerFixture(on: broker)
        let names = fixture.names
        try await fixture.connected { connection in
            try await connection.declare(names.cleaning)
            try await connection.declare(names.consuming(as: "c"))
        }
        let context = RecordingContext()
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [context], broker: fixture.broker, options: fixture.options())
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        try await withServices(publisher, consumer) {
            try await until { consumer.status().counts.deliveries > 0 }
            let first = try await fixture.fixture.insert()
            try await until { consumer.status().acknowledged == first }
            try await broker.writeDownQueues()
            await broker.kill()
            let second = try await fixture.fixture.insert(2)
            try await consumer.waitUntilCaughtUp(to: second)
            #expect(consumer.status().acknowledged == first)
            try await broker.start()
            try await until { consumer.status().acknowledged == second }
            try await until { consumer.status().broker == .open }
            let deliveries = consumer.status().counts.deliveries
            // Nobody waits, so that nothing but a delivery wakes it.
            let third = try await fixture.fixture.insert()
            try await until { consumer.status().token == third && consumer.status().counts.deliveries > deliveries }
        }
        #expect(context.sequences == [1, 2, 3, 4, 5])
        await broker.shutDown()
    }
}

extension PrivateBroker {
    /// How many messages of a queue are ready or unsettled.
    func unsettled(_ queue: String, host: String) async throws -> Int {
        let value = try await evaluate(
            """
            {ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(\(Self.binary(host)), queue, \(Self.binary(queue)))),
            [{messages, N}] = rabbit_amqqueue:info(Q, [messages]), N
            """)
        return Int(value) ?? -1
    }
}
