import Testing
import TidingsAMQP
import TidingsTestKit

@Suite(.timeLimit(.minutes(5)))
struct TopologyTests {
    private let topology = AMQPTopology(
        exchanges: [AMQPExchange("events", .topic)], queues: [.quorum("all"), AMQPQueue("some")],
        bindings: [
            AMQPBinding(queue: "all", exchange: "events", key: "#"),
            AMQPBinding(queue: "some", exchange: "events", key: "a.*"),
        ])

    @Test("A topology routes as it says, and may be declared again")
    func declare() async throws {
        let fixture = try await Fixture()
        try await fixture.connected { connection in
            try await connection.declare(topology)
            try await connection.declare(topology)
            let publisher = await connection.publisher()
            for key in ["a.b", "a.c", "b.c"] {
                let result = try await publisher.publish(
                    AMQPMessage(key), to: AMQPAddress(exchange: "events", routingKey: key))
                #expect(result == .confirmed)
            }
            #expect(try await connection.inspect(queue: "some").messages == 2)
            try await connection.unbind(topology.bindings[1])
            _ = try await publisher.publish(AMQPMessage(""), to: AMQPAddress(exchange: "events", routingKey: "a.d"))
            #expect(try await connection.inspect(queue: "some").messages == 2)
            #expect(try await connection.consume("all").take(4).count == 4)
        }
    }

    @Test("P14: a queue that exists with other arguments is an error that names queue and argument, and no loop")
    func inequivalent() async throws {
        let fixture = try await Fixture()
        try await fixture.connected { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q", arguments: ["x-max-length": 5])]))
            let error = await #expect(throws: AMQPError.self) {
                try await connection.declare(AMQPTopology(queues: [AMQPQueue("q", arguments: ["x-max-length": 6])]))
            }
            #expect(error?.code == .preconditionFailed)
            #expect(error?.subject == "q")
            #expect(error?.argument == "x-max-length")
            #expect(error?.isFatal == true)
            // The connection is as it was, and the next recovery declares what was agreed on.
            #expect(connection.state == .open)
            #expect(connection.epoch == 1)
            try await fixture.broker.closeConnections(virtualHost: fixture.host.name)
            for await state in connection.states() where state == .open && connection.epoch == 2 { break }
            #expect(try await connection.inspect(queue: "q").messages == 0)
        }
    }

    @Test("A permission that is missing is named")
    func permissions() async throws {
        let fixture = try await Fixture()
        let user = try await fixture.host.addUser(configure: "^mine$", write: ".*", read: ".*")
        let configuration = try AMQPConfiguration(urls: user.url, name: "limited")
        try await AMQPConnection.withConnection(configuration) { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("mine")]))
            let error = await #expect(throws: AMQPError.self) {
                try await connection.declare(AMQPTopology(queues: [AMQPQueue("yours")]))
            }
            #expect(error?.code == .accessRefused)
            #expect(error?.subject == "yours")
        }
    }
}
