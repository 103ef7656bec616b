import Testing
import TidingsAMQP
import TidingsTestKit

@Suite(.timeLimit(.minutes(5)))
struct PublishingTests {
    @Test("A persistent message that is confirmed is in the queue")
    func confirmed() async throws {
        let fixture = try await Fixture()
        try await fixture.connected { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
            let publisher = await connection.publisher()
            #expect(try await publisher.publish(AMQPMessage("one"), to: .queue("q")) == .confirmed)
            #expect(try await connection.inspect(queue: "q").messages == 1)
        }
    }

    @Test("A batch larger than the window is confirmed whole, in order", arguments: [1, 7, 1000])
    func windows(messages: Int) async throws {
        let fixture = try await Fixture()
        try await fixture.connected { connection in
            try await connection.declare(AMQPTopology(queues: [.quorum("q")]))
            let publisher = await connection.publisher(window: .init(messages: messages))
            let results = try await publisher.publish(numbered(0..<2500, to: "q"))
            #expect(results == Array(repeating: .confirmed, count: 2500))
            let consumer = try await connection.consume("q")
            let numbers = try await consumer.take(2500).map(\.message.number)
            #expect(numbers == (0..<2500).map { $0 })
        }
    }

    @Test("P10: a message that no queue wants is returned, told by message, and the rest goes on")
    func returned() async throws {
        let fixture = try await Fixture()
        try await fixture.connected { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
            let publisher = await connection.publisher()
            var publications = numbered(0..<10, to: "q")
            publications[3].address = .queue("nobody")
            publications[7].address = .queue("nobody")
            var expected = [PublishResult](repeating: .confirmed, count: 10)
            expected[3] = .returned(code: 312, text: "NO_ROUTE")
            expected[7] = .returned(code: 312, text: "NO_ROUTE")
            #expect(try await publisher.publish(publications) == expected)
            let counts = await publisher.counts()
            #expect(counts.returned == 2)
            #expect(counts.confirmed == 8)
            #expect(counts.unanswered == 0)
        }
    }

    @Test("A queue that is full refuses: nacked")
    func nacked() async throws {
        let fixture = try await Fixture()
        try await fixture.connected { connection in
            let full = AMQPQueue("full", arguments: ["x-max-length": 1, "x-overflow": "reject-publish"])
            try await connection.declare(AMQPTopology(queues: [full]))
            let publisher = await connection.publisher(window: .init(messages: 1))
            let results = try await publisher.publish(numbered(0..<5, to: "full"))
            #expect(results.first == .confirmed)
            #expect(results.last == .nacked)
        }
    }

    @Test("A channel that answers with nothing but nacks is opened anew, and the publisher goes on over the next")
    func renewed() async throws {
        let fixture = try await Fixture()
        try await fixture.connected { connection in
            let full = AMQPQueue("full", arguments: ["x-max-length": 1, "x-overflow": "reject-publish"])
            try await connection.declare(AMQPTopology(queues: [full]))
            let publisher = await connection.publisher(window: .init(messages: 1))
            _ = try await publisher.publish(numbered(0..<5, to: "full"))
            let before = try await fixture.channels()
            #expect(before.count > 2)
            while try await fixture.channels() == before {
                #expect(try await publisher.publish(numbered(0..<1, to: "full")) == [.nacked])
            }
            #expect(connection.epoch == 1)
            let consumer = try await connection.consume("full")
            #expect(try await consumer.take(1).count == 1)
            // Until the broker has counted the queue's length anew.
            while try await publisher.publish(numbered(5..<6, to: "full")) != [.confirmed] {}
            #expect(await publisher.counts().unknown == 0)
        }
    }
}
