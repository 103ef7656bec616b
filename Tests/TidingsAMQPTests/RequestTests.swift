import Testing
import TidingsAMQP
import TidingsTestKit

@Suite(.timeLimit(.minutes(1)))
struct RequestTests {
    private static let topology = AMQPTopology(
        exchanges: [AMQPExchange("commands", .topic), AMQPExchange("replies", .direct)],
        queues: [AMQPQueue("one"), AMQPQueue("two")],
        bindings: ["one", "two"].flatMap { name in
            [
                AMQPBinding(queue: name, exchange: "commands", key: "command.\(name)"),
                AMQPBinding(queue: name, exchange: "commands", key: "command.all"),
            ]
        })

    private func command(_ service: String) -> AMQPAddress {
        AMQPAddress(exchange: "commands", routingKey: "command.\(service)")
    }

    /// Runs two services that answer with their name and the request, and a requester.
    private func served(
        on fixture: Fixture, _ body: @Sendable (AMQPRequester, AMQPConnection) async throws -> Void
    ) async throws {
        try await fixture.connected { connection in
            try await connection.declare(Self.topology)
            let publisher = await connection.publisher()
            var services: [Task<Void, any Error>] = []
            for name in ["one", "two"] {
                let consumer = try await connection.consume(name)
                services.append(
                    Task {
                        for try await request in consumer {
                            let text = String(decoding: request.message.body, as: UTF8.self)
                            // Some requests are left without an answer.
                            if text != "silence" {
                                _ = try await publisher.reply(
                                    AMQPMessage("\(name): \(text)"), to: request, exchange: "replies")
                            }
                            request.ack()
                        }
                    })
            }
            try await AMQPRequester.withRequester(on: connection, replyExchange: "replies") { requester in
                try await body(requester, connection)
            }
            for service in services { service.cancel() }
        }
    }

    @Test("Requests at the same time get each its own reply")
    func concurrent() async throws {
        try await served(on: Fixture()) { requester, _ in
            let texts = try await withThrowingTaskGroup(of: (Int, String).self) { group in
                for number in 0..<50 {
                    group.addTask {
                        let reply = try await requester.request(
                            AMQPMessage("\(number)"), to: command("one"), within: .seconds(20))
                        return (number, String(decoding: reply.body, as: UTF8.self))
                    }
                }
                return try await group.reduce(into: [Int: String]()) { $0[$1.0] = $1.1 }
            }
            #expect(texts == Dictionary(uniqueKeysWithValues: (0..<50).map { ($0, "one: \($0)") }))
        }
    }

    @Test("A request to all gets a reply from each")
    func all() async throws {
        try await served(on: Fixture()) { requester, _ in
            let replies = try await requester.requestAll(
                AMQPMessage("hello"), to: command("all"), within: .seconds(20), atMost: 2)
            #expect(Set(replies.map { String(decoding: $0.body, as: UTF8.self) }) == ["one: hello", "two: hello"])
        }
    }

    @Test("Without a reply a request ends at its limit; to nobody at once; both say so")
    func failures() async throws {
        try await served(on: Fixture()) { requester, _ in
            let silence = await #expect(throws: AMQPError.self) {
                _ = try await requester.request(AMQPMessage("silence"), to: command("one"), within: .milliseconds(200))
            }
            #expect(silence?.code == .timedOut)
            let nobody = await #expect(throws: AMQPError.self) {
                _ = try await requester.request(AMQPMessage("hello"), to: command("three"), within: .seconds(20))
            }
            #expect(nobody?.code == .notFound)
            let none = try await requester.requestAll(
                AMQPMessage("silence"), to: command("all"), within: .milliseconds(200))
            #expect(none == [])
        }
    }

    @Test("A lost connection is bridged: the same requester asks on, over the next one")
    func recovery() async throws {
        let fixture = try await Fixture()
        try await served(on: fixture) { requester, connection in
            _ = try await requester.request(AMQPMessage("a"), to: command("one"), within: .seconds(20))
            try await fixture.broker.closeConnections(virtualHost: fixture.host.name)
            for await state in connection.states() where state == .open && connection.epoch == 2 { break }
            let reply = try await requester.request(AMQPMessage("b"), to: command("one"), within: .seconds(20))
            #expect(reply.body == Array("one: b".utf8))
        }
    }

    @Test("The reply queue is gone when the requester is")
    func cleanUp() async throws {
        let fixture = try await Fixture()
        try await fixture.connected { connection in
            try await connection.declare(Self.topology)
            let name = try await AMQPRequester.withRequester(on: connection, replyExchange: "replies") { $0.replyQueue }
            let error = await #expect(throws: AMQPError.self) { _ = try await connection.inspect(queue: name) }
            #expect(error?.code == .notFound)
        }
    }
}
