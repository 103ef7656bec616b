import Testing
import TidingsAMQP
import TidingsTestKit

@Suite(.timeLimit(.minutes(5)))
struct ConsumingTests {
    @Test("A double ack is a counted no-op, and the channel lives on")
    func doubleAck() async throws {
        let fixture = try await Fixture()
        try await fixture.connected { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
            let publisher = await connection.publisher()
            _ = try await publisher.publish(numbered(0..<2, to: "q"))
            let consumer = try await connection.consume("q")
            let iterator = consumer.makeAsyncIterator()
            let first = try #require(try await iterator.next())
            #expect(first.ack())
            #expect(!first.ack())
            #expect(!first.reject(requeue: true))
            let second = try #require(try await iterator.next())
            #expect(second.ack())
            #expect(consumer.counts.repeated == 2)
            await consumer.close()
            #expect(try await connection.inspect(queue: "q").messages == 0)
        }
    }

    @Test("What is rejected with requeue comes again, marked; without, it is gone")
    func reject() async throws {
        let fixture = try await Fixture()
        try await fixture.connected { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
            let publisher = await connection.publisher()
            _ = try await publisher.publish(numbered(0..<1, to: "q"))
            let consumer = try await connection.consume("q")
            let iterator = consumer.makeAsyncIterator()
            let first = try #require(try await iterator.next())
            #expect(!first.isRedelivered)
            #expect(first.reject(requeue: true))
            let again = try #require(try await iterator.next())
            #expect(again.isRedelivered)
            #expect(again.message.number == 0)
            #expect(again.reject(requeue: false))
            await consumer.close()
            #expect(try await connection.inspect(queue: "q").messages == 0)
        }
    }

    @Test("No more deliveries are held than the prefetch limit")
    func prefetch() async throws {
        let fixture = try await Fixture()
        try await fixture.connected { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
            let publisher = await connection.publisher()
            _ = try await publisher.publish(numbered(0..<50, to: "q"))
            let consumer = try await connection.consume("q", .init(prefetch: 3))
            var held: [AMQPDelivery] = []
            let iterator = consumer.makeAsyncIterator()
            while held.count < 3, let delivery = try await iterator.next() { held.append(delivery) }
            // A round trip: what the broker had to send has come.
            #expect(try await connection.inspect(queue: "q").messages == 47)
            #expect(consumer.counts.delivered == 3)
            for delivery in held { delivery.ack() }
            #expect(try await consumer.take(47).last?.message.number == 49)
        }
    }

    @Test("A message of every property and kind of header arrives as it was sent")
    func properties() async throws {
        let fixture = try await Fixture()
        var properties = AMQPProperties(contentType: "application/json", messageID: "id-1")
        properties.contentEncoding = "identity"
        properties.headers = [
            "null": .null, "bool": true, "integer": -9_007_199_254_740_993, "double": .double(-0.5),
            "decimal": .decimal(value: 12345, decimals: 2), "string": "Grüße", "time": .timestamp(1_700_000_000),
            "array": .array([1, "two", .array([])]), "table": .table(["a": .table(["b": false])]),
        ]
        properties.priority = 3
        properties.correlationID = "c"
        properties.replyTo = "r"
        properties.expiration = "60000"
        properties.timestamp = 1_700_000_001
        properties.type = "t"
        properties.userID = fixture.host.user
        properties.applicationID = "a"
        let message = AMQPMessage([0, 255, 10], properties: properties)
        try await fixture.connected { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
            #expect(try await connection.publisher().publish(message, to: .queue("q")) == .confirmed)
            let delivery = try await connection.consume("q").take(1)[0]
            #expect(delivery.message == message)
            #expect(delivery.address == .queue("q"))
        }
    }

    @Test("Headers nested thousands of levels deep harm nobody")
    func deepHeaders() async throws {
        let fixture = try await Fixture()
        try await fixture.connected { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
            // As a hostile publisher would, by the broker's own hand: 20,000 arrays in each other.
            _ = try await fixture.broker.evaluate(
                """
                {Type, Value} = lists:foldl(fun(_, V) -> {array, [V]} end, {long, 1}, lists:seq(1, 20000)),
                Properties = setelement(4, list_to_tuple(['P_basic' | lists:duplicate(14, undefined)]),
                    [{<<"deep">>, Type, Value}]),
                Exchange = rabbit_misc:r(\(PrivateBroker.binary(fixture.host.name)), exchange, <<>>),
                Content = rabbit_basic:build_content(Properties, <<"body">>),
                {ok, Message} = rabbit_basic:message(Exchange, <<"q">>, Content),
                _ = rabbit_basic:publish(rabbit_basic:delivery(false, false, Message, undefined)),
                done
                """)
            let delivery = try await connection.consume("q").take(1)[0]
            #expect(delivery.message.body == Array("body".utf8))
            var value = delivery.message.properties.headers["deep"]
            var depth = 0
            while case .array(let values) = value {
                value = values.first
                depth += 1
            }
            #expect(depth == AMQPTable.maximumDepth - 1)
            #expect(value == .unreadable)
        }
    }

    @Test("Two consumers of one connection and large bodies on both lose no frame, requests meanwhile or not")
    func interleaved() async throws {
        let fixture = try await Fixture()
        let size = 700_000
        try await fixture.connected { publishing in
            try await publishing.declare(AMQPTopology(queues: [AMQPQueue("a"), AMQPQueue("b")]))
            let publisher = await publishing.publisher()
            try await fixture.connected { connection in
                let a = try await connection.consume("a", .init(prefetch: 4))
                let b = try await connection.consume("b", .init(prefetch: 4))
                async let fromA = a.take(30)
                async let fromB = b.take(30)
                async let inspections = connection.inspectMany("a", times: 100)
                for number in 0..<30 {
                    let both =
                        numbered(number..<number + 1, to: "a", size: size)
                        + numbered(number..<number + 1, to: "b", size: size)
                    #expect(try await publisher.publish(both) == [.confirmed, .confirmed])
                }
                #expect(try await inspections == 100)
                for deliveries in try await [fromA, fromB] {
                    #expect(deliveries.map(\.message.number) == (0..<30).map { $0 })
                    #expect(deliveries.allSatisfy { $0.message.body.count == size })
                }
            }
        }
    }

    @Test("A queue deleted under its consumer that is declared is declared again, and consumed again")
    func deletedQueue() async throws {
        let fixture = try await Fixture()
        try await fixture.connected { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
            let consumer = try await connection.consume("q")
            let publisher = await connection.publisher()
            _ = try await publisher.publish(numbered(0..<1, to: "q"))
            #expect(try await consumer.take(1).count == 1)
            try await fixture.broker.deleteQueue("q", virtualHost: fixture.host.name)
            // Until it is there again, what is published comes back.
            while try await publisher.publish(numbered(1..<2, to: "q")) != [.confirmed] {}
            #expect(try await consumer.take(1)[0].message.number == 1)
            #expect(consumer.counts.restarts == 1)
        }
    }

    @Test("A queue that is gone for good ends the sequence with an error that names it")
    func goneQueue() async throws {
        let fixture = try await Fixture()
        try await fixture.connected { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
            let consumer = try await connection.consume("q")
            try await connection.delete(queue: "q")
            let error = await #expect(throws: AMQPError.self) { _ = try await consumer.makeAsyncIterator().next() }
            #expect(error?.code == .notFound)
            #expect(error?.subject == "q")
        }
    }

    @Test("Consuming a queue that does not exist is an error at once, and harms nothing else")
    func missingQueue() async throws {
        let fixture = try await Fixture()
        try await fixture.connected { connection in
            let error = await #expect(throws: AMQPError.self) { _ = try await connection.consume("nowhere") }
            #expect(error?.code == .notFound)
            #expect(error?.replyCode == 404)
            #expect(error?.subject == "nowhere")
            #expect(connection.state == .open)
        }
    }

    @Test("A consumer slower than the broker's delivery timeout gets its channel back, and the delivery again")
    func deliveryTimeout() async throws {
        let broker = try await PrivateBroker.start(.init(settings: ["consumer_timeout": "1000"]))
        // The broker looks each so many milliseconds.
        _ = try await broker.evaluate("application:set_env(rabbit, channel_tick_interval, 500)")
        let host = try await broker.makeVirtualHost()
        let configuration = try AMQPConfiguration(urls: host.url, name: "slow")
        try await AMQPConnection.withConnection(configuration) { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
            _ = try await connection.publisher().publish(numbered(0..<1, to: "q"))
            let consumer = try await connection.consume("q")
            let iterator = consumer.makeAsyncIterator()
            let slow = try #require(try await iterator.next())
            let again = try #require(try await iterator.next())
            #expect(!slow.ack())
            #expect(again.isRedelivered)
            #expect(again.ack())
            #expect(consumer.counts.stale == 1)
            #expect(consumer.counts.restarts == 1)
        }
        await broker.shutDown()
    }
}

extension AMQPConnection {
    /// Asks for a queue's length many times; gives how often it was answered.
    func inspectMany(_ queue: String, times: Int) async throws -> Int {
        for _ in 0..<times { _ = try await inspect(queue: queue) }
        return times
    }
}
