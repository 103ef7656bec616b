import Glibc
import Testing
import TidingsAMQP
import TidingsTestKit

/// What a broker that is hurt does to its clients: one broker for all, hurt by one test after the other.
@Suite(.serialized, .timeLimit(.minutes(5)))
struct FailureTests {
    private static let victim = Task { try await PrivateBroker.start() }

    private let broker: PrivateBroker
    private let host: TestVirtualHost

    init() async throws {
        broker = try await Self.victim.value
        host = try await broker.makeVirtualHost()
    }

    private func configuration(heartbeat: Duration = .seconds(10)) throws -> AMQPConfiguration {
        var configuration = try AMQPConfiguration(urls: host.url, name: "hurt")
        configuration.recovery = .always(Backoff(first: .milliseconds(50), longest: .milliseconds(500)))
        configuration.heartbeat = heartbeat
        configuration.sendTimeout = .seconds(3)
        return configuration
    }

    @Test(
        "A broker killed in the middle of a window: all is confirmed or unknown, nothing hangs, and what is sent again is there"
    )
    func killed() async throws {
        let broker = broker
        try await AMQPConnection.withConnection(configuration()) { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
            try await broker.writeDownQueues()
            let publisher = await connection.publisher(window: .init(messages: 200))
            async let results = publisher.publish(numbered(0..<20_000, to: "q"))
            while await publisher.counts().confirmed < 2000 { await Task.yield() }
            await broker.kill()
            try await broker.start()
            let first = try await results
            let unknown = first.indices.filter { first[$0] != .confirmed }
            #expect(unknown.count > 0)
            #expect(unknown.count <= 200)
            let again = try await publisher.publish(unknown.map { numbered($0..<$0 + 1, to: "q")[0] })
            #expect(again == Array(repeating: .confirmed, count: unknown.count))
            let messages = try await connection.inspect(queue: "q").messages
            let consumer = try await connection.consume("q")
            let numbers = try await consumer.take(messages).compactMap(\.message.number)
            #expect(Set(numbers) == Set(0..<20_000))
            #expect(connection.epoch == 2)
        }
    }

    @Test("P12: idle for three heartbeats, the connection is alive, and publishing after it too")
    func idle() async throws {
        try await AMQPConnection.withConnection(configuration(heartbeat: .seconds(2))) { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
            let publisher = await connection.publisher()
            #expect(try await publisher.publish(numbered(0..<1, to: "q")) == [.confirmed])
            try await Task.sleep(for: .seconds(7))
            #expect(connection.state == .open)
            #expect(connection.epoch == 1)
            #expect(try await publisher.publish(numbered(1..<2, to: "q")) == [.confirmed])
            #expect(connection.epoch == 1)
        }
    }

    @Test("P12: a peer that stands still is noticed within two heartbeats; what was published is unknown")
    func suspended() async throws {
        let broker = broker
        try await AMQPConnection.withConnection(configuration(heartbeat: .seconds(2))) { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
            let publisher = await connection.publisher()
            #expect(try await publisher.publish(numbered(0..<1, to: "q")) == [.confirmed])
            broker.suspend()
            let begin = ContinuousClock.now
            let results = try await publisher.publish(numbered(0..<1, to: "q"))
            let time = ContinuousClock.now - begin
            broker.resume()
            guard case .unknown(let error) = results[0] else {
                Issue.record("not unknown: \(results[0])")
                return
            }
            #expect(error.code == .connectionLost)
            #expect(time <= .seconds(4.1))
            #expect(try await publisher.publish(numbered(0..<1, to: "q")) == [.confirmed])
        }
    }

    @Test("P11: blocked by a memory alarm: a state, no error; publishing waits, and goes on by itself")
    func blocked() async throws {
        let broker = broker
        try await AMQPConnection.withConnection(configuration()) { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
            let publisher = await connection.publisher(window: .init(messages: 10))
            try await broker.setMemoryAlarm(true)
            async let results = publisher.publish(numbered(0..<1000, to: "q"))
            for await case .blocked(let reason) in connection.states() {
                #expect(reason == "low on memory")
                break
            }
            // Nothing more than a window goes to a broker that takes nothing.
            let counts = await publisher.counts()
            #expect(counts.confirmed == 0)
            #expect(counts.unanswered <= 10)
            #expect(counts.waiting == 1000 - counts.unanswered)
            try await broker.setMemoryAlarm(false)
            #expect(try await results == Array(repeating: .confirmed, count: 1000))
            #expect(connection.state == .open)
            #expect(connection.epoch == 1)
        }
    }

    @Test("A publish that blocks in the socket is cut by the watchdog within its bound, and reported unknown")
    func watchdog() async throws {
        let broker = broker
        // Without heartbeats nothing else would ever end it.
        try await AMQPConnection.withConnection(configuration(heartbeat: .zero)) { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
            let publisher = await connection.publisher(window: .init(bytes: 64 << 20))
            #expect(try await publisher.publish(numbered(0..<1, to: "q")) == [.confirmed])
            broker.suspend()
            let begin = ContinuousClock.now
            let large = AMQPPublication(AMQPMessage([UInt8](repeating: 1, count: 900_000)), to: .queue("q"))
            async let results = publisher.publish(Array(repeating: large, count: 30))
            for await case .recovering(_, _, let error) in connection.states() {
                #expect(error.code == .timedOut)
                break
            }
            let time = ContinuousClock.now - begin
            #expect(time > .seconds(3))
            #expect(time < .seconds(4))
            broker.resume()
            // What was written before the cut is unknown, and the rest is written when the broker is back.
            let codes = try await results.map { result -> AMQPError.Code? in
                if case .unknown(let error) = result { error.code } else { nil }
            }
            let cut = codes.prefix { $0 == .timedOut }.count
            #expect(cut > 0)
            #expect(codes.dropFirst(cut).allSatisfy { $0 == nil })
        }
    }

    @Test("Closing a connection whose broker stands still ends at its deadline")
    func closing() async throws {
        let connection = try AMQPConnection(configuration(heartbeat: .zero))
        let run = Task { try await connection.run() }
        try await connection.waitUntilOpen(within: .seconds(5))
        broker.suspend()
        let begin = ContinuousClock.now
        await connection.close(within: .seconds(1))
        #expect(ContinuousClock.now - begin < .seconds(2))
        broker.resume()
        try await run.value
        #expect(connection.state == .closed(nil))
    }

    @Test("A connection that the administrator closes comes back, with its consumers; what was held is stale")
    func forced() async throws {
        let (broker, host) = (broker, host)
        try await AMQPConnection.withConnection(configuration()) { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
            let publisher = await connection.publisher()
            let consumer = try await connection.consume("q")
            _ = try await publisher.publish(numbered(0..<3, to: "q"))
            let iterator = consumer.makeAsyncIterator()
            let held = try #require(try await iterator.next())
            #expect(try await broker.closeConnections(virtualHost: host.name) == 1)
            // The same three again: nothing was acked.
            var again: [Int?] = []
            while again.count < 3, let delivery = try await iterator.next() {
                #expect(delivery.isRedelivered)
                again.append(delivery.message.number)
                delivery.ack()
            }
            #expect(again == [0, 1, 2])
            #expect(!held.ack())
            #expect(consumer.counts.stale == 1)
            #expect(connection.epoch == 2)
        }
    }

    @Test("Recovering is a state that tells attempt and reason, and `never` ends `run()` with it")
    func states() async throws {
        let connection = try AMQPConnection(configuration())
        let run = Task { try await connection.run() }
        try await connection.waitUntilOpen(within: .seconds(5))
        await broker.kill()
        for await case .recovering(let attempt, _, let error) in connection.states() where attempt == 2 {
            #expect(error.code == .refused)
            break
        }
        var never = try configuration()
        never.recovery = .never
        let error = await #expect(throws: AMQPError.self) {
            try await AMQPConnection.withConnection(never) { _ in }
        }
        #expect(error?.code == .refused)
        try await broker.start()
        for await state in connection.states() where state == .open { break }
        #expect(connection.epoch == 2)
        await connection.close()
        try await run.value
    }

    @Test("A cancelled publish returns at once: unknown where it was written, an error where nothing was")
    func cancelled() async throws {
        let broker = broker
        try await AMQPConnection.withConnection(configuration()) { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
            let publisher = await connection.publisher(window: .init(messages: 1))
            try await broker.setMemoryAlarm(true)
            let written = Task { try await publisher.publish(AMQPMessage("a"), to: .queue("q")) }
            for await case .blocked in connection.states() { break }
            let waiting = Task { try await publisher.publish(AMQPMessage("b"), to: .queue("q")) }
            while await publisher.counts().waiting == 0 { await Task.yield() }
            waiting.cancel()
            await #expect(throws: CancellationError.self) { _ = try await waiting.value }
            written.cancel()
            guard case .unknown = try await written.value else {
                Issue.record("not unknown")
                return
            }
            try await broker.setMemoryAlarm(false)
        }
    }
}
