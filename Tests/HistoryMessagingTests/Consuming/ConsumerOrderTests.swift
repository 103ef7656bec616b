import Foundation
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsTestKit

@testable import HistoryMessaging

/// What the broker holds of a consumer, seen from the broker's side.
@Suite("Consumer's order, seen by the broker", .timeLimit(.minutes(3)))
struct ConsumerOrderTests {
    @Test("PHT14: run() while running throws alreadyRunning, and the queue has one consumer as before")
    func secondRun() async throws {
        let fixture = try await BrokerFixture()
        let queue = fixture.names.queue(of: "c")
        let consumer = HistoryConsumer(fixture.store, name: "c", broker: fixture.broker, options: fixture.options())
        try await withServices(consumer) {
            try await until { consumer.status().broker == .open }
            try await until {
                (try? await fixture.privateBroker.consumers(of: queue, host: fixture.host.name)) == 1
            }
            let agents = await consumer.livingAgents
            let error = await #expect(throws: MessagingError.self) { try await consumer.run() }
            #expect(error?.code == .alreadyRunning)
            #expect(try await fixture.privateBroker.consumers(of: queue, host: fixture.host.name) == 1)
            #expect(await consumer.livingAgents == agents)
        }
    }

    @Test(
        "PHT17: the delivery is unsettled until the token is durable; the acknowledgement is sent after the broker's ack"
    )
    func order() async throws {
        let fixture = try await BrokerFixture()
        let names = fixture.names
        let halts = Halts(from: .consumerBeforeMerge)
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [RecordingContext()], broker: fixture.broker,
            options: fixture.options {
                $0.start = .now
                $0.onStep = halts.pass
            })
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        let first = try await fixture.store.currentToken()
        @Sendable func held(_ queue: String) async throws -> Int {
            try await fixture.privateBroker.held(queue, host: fixture.host.name)
        }
        try await fixture.connected { connection in
            try await connection.declare(names.cleaning)
            try await connection.declare(names.consuming(as: "c"))
        }
        // The consumer's agents stand still at each step; their threads are none of those that look meanwhile.
        let seen = try await withTaskExecutorPreference(QueueExecutor()) {
            try await withServices(publisher, consumer) {
                try await until { consumer.status().counts.deliveries == 1 }
                try await until { consumer.status().acknowledged == first }
                try await until { try await held(names.queue(of: "c")) == 0 }
                #expect(try await held(names.acknowledgementQueue) == 1)
                halts.begin()
                let token = try await fixture.fixture.insert()
                var seen: [String] = []
                for await step in halts.steps {
                    if step == .consumerAfterBrokerAck { try await until { try await held(names.queue(of: "c")) == 0 } }
                    let bytes = [UInt8](try Data(contentsOf: URL(filePath: "\(fixture.store.path)-tokens/c.token")))
                    let isDurable = TokenLayout.read(bytes)?.slot.content.token == token
                    seen.append(
                        "\(step): \(try await held(names.queue(of: "c"))) unsettled, "
                            + "\(try await held(names.acknowledgementQueue)) acknowledgements, durable: \(isDurable)")
                    if step == .consumerAfterAcknowledgement { halts.end() }
                    halts.goOn()
                }
                return seen
            }
        }
        #expect(
            seen == [
                "consumerBeforeMerge: 1 unsettled, 1 acknowledgements, durable: false",
                "consumerAfterMerge: 1 unsettled, 1 acknowledgements, durable: false",
                "consumerAfterToken: 1 unsettled, 1 acknowledgements, durable: true",
                "consumerAfterBrokerAck: 0 unsettled, 1 acknowledgements, durable: true",
                "consumerAfterAcknowledgement: 0 unsettled, 2 acknowledgements, durable: true",
            ])
    }
}

/// Has agents stand still at their steps while a test looks.
private final class Halts: Sendable {
    private enum Phase { case idle, waiting, halting, over }

    /// The steps at which they stand.
    let steps: AsyncStream<AgentStep>
    private let continuation: AsyncStream<AgentStep>.Continuation
    private let first: AgentStep
    private let phase = Locked(Phase.idle)
    private let semaphore = DispatchSemaphore(value: 0)

    /// - Parameter first: the step that is halted at first.
    init(from first: AgentStep) {
        self.first = first
        (steps, continuation) = AsyncStream.makeStream(of: AgentStep.self)
    }

    func begin() { phase.withLock { $0 = .waiting } }

    func end() {
        phase.withLock { $0 = .over }
        continuation.finish()
    }

    func pass(_ step: AgentStep) {
        let isHalting = phase.withLock { phase in
            if phase == .waiting, step == first { phase = .halting }
            return phase == .halting
        }
        guard isHalting else { return }
        continuation.yield(step)
        // Bounded: where the test has failed, nobody says that it may go on.
        _ = semaphore.wait(timeout: .now() + 30)
    }

    func goOn() { semaphore.signal() }
}

extension PrivateBroker {
    /// How many messages a quorum queue holds, ready or unsettled: asked of the queue, whose statistics are seconds old.
    fileprivate func held(_ queue: String, host: String) async throws -> Int {
        let value = try await evaluate(
            """
            {ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(\(Self.binary(host)), queue, \(Self.binary(queue)))),
            {ok, {_, N}, _} = ra:leader_query(amqqueue:get_pid(Q), fun rabbit_fifo:query_messages_total/1), N
            """)
        return try #require(Int(value))
    }

    /// How many consumers a queue has, those that wait for their turn included.
    fileprivate func consumers(of queue: String, host: String) async throws -> Int {
        let value = try await evaluate(
            """
            {ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(\(Self.binary(host)), queue, \(Self.binary(queue)))),
            length(rabbit_amqqueue:consumers(Q))
            """)
        return try #require(Int(value))
    }
}
