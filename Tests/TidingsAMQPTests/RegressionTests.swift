import Testing
import TidingsTestKit

@testable import TidingsAMQP

/// What users of such connections report, each as they saw it.
@Suite(.timeLimit(.minutes(2)))
struct RegressionTests {
    // MARK: Bodies of whole frames

    @Test(
        "A body of whole frames, or of a byte more or less, is confirmed promptly and arrives whole",
        arguments: [1, 2, 3])
    func wholeFrames(frames: Int) async throws {
        let fixture = try await Fixture()
        try await AMQPConnection.withConnection(fixture.configuration()) { connection in
            try await expectPrompt(connection, frameSize: 131_072, frames: frames)
        }
    }

    @Test("With a broker that agrees on smaller frames too, where a last piece that is held back costs 200 ms")
    func smallFrames() async throws {
        let broker = try await PrivateBroker.start(.init(settings: ["frame_max": "16384"]))
        let host = try await broker.makeVirtualHost()
        try await AMQPConnection.withConnection(AMQPConfiguration(urls: host.url, name: "small")) { connection in
            for frames in 1...3 { try await expectPrompt(connection, frameSize: 16_384, frames: frames) }
        }
        await broker.shutDown()
    }

    /// Publishes bodies of whole frames, and of a byte more or less, five times each.
    private func expectPrompt(_ connection: AMQPConnection, frameSize: Int, frames: Int) async throws {
        try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
        let publisher = await connection.publisher()
        for size in (frames * (frameSize - 8) - 1)...(frames * (frameSize - 8) + 1) {
            var body = [UInt8](repeating: 0, count: size)
            for index in stride(from: 0, to: size, by: 997) { body[index] = UInt8(truncatingIfNeeded: index) }
            body[size - 1] = 255
            var times: [Duration] = []
            // Nobody consumes meanwhile: an ack would push out what the kernel holds back.
            for _ in 0..<5 {
                let begin = ContinuousClock.now
                #expect(try await publisher.publish(AMQPMessage(body), to: .queue("q")) == .confirmed)
                times.append(ContinuousClock.now - begin)
            }
            // A busy machine may be late once or twice; a piece that the kernel holds back is late each time.
            #expect(try #require(times.min()) < .milliseconds(150), "\(size) bytes: \(times)")
            let consumer = try await connection.consume("q")
            #expect(try await consumer.take(5).map(\.message.body) == Array(repeating: body, count: 5))
            await consumer.close()
        }
    }

    // MARK: An exchange that does not exist

    @Test(
        "A thousand messages to an exchange that does not exist: each is unknown with its name, none is lost silently")
    func missingExchange() async throws {
        let fixture = try await Fixture()
        try await fixture.connected { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
            let publisher = await connection.publisher()
            var burst = numbered(0..<1000, to: "q")
            for index in burst.indices { burst[index].address = AMQPAddress(exchange: "nowhere", routingKey: "q") }
            let results = try await publisher.publish(burst)
            #expect(results.count == 1000)
            #expect(results.allSatisfy { isMissing($0, "nowhere") })
            let counts = await publisher.counts()
            #expect(counts.unknown == 1000)
            #expect(counts.unanswered == 0)
            #expect(counts.waiting == 0)
            // The publisher has a channel again, and the connection never went.
            #expect(try await publisher.publish(numbered(0..<1, to: "q")) == [.confirmed])
            #expect(try await connection.inspect(queue: "q").messages == 1)
            #expect(connection.epoch == 1)
        }
    }

    @Test("One message to an exchange that does not exist takes others of its window along: unknown, and sent again")
    func missingExchangeAmongOthers() async throws {
        let fixture = try await Fixture()
        try await fixture.connected { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
            let publisher = await connection.publisher()
            let all = numbered(0..<1000, to: "q")
            var first = all
            first[100].address = AMQPAddress(exchange: "nowhere", routingKey: "q")
            let results = try await publisher.publish(first)
            #expect(isMissing(results[100], "nowhere"))
            #expect(results.allSatisfy { $0 == .confirmed || isMissing($0, "nowhere") })
            let rest = zip(all, results).filter { $1 != .confirmed }.map(\.0)
            #expect(try await publisher.publish(rest) == Array(repeating: .confirmed, count: rest.count))
            let messages = try await connection.inspect(queue: "q").messages
            let numbers = try await connection.consume("q").take(messages).compactMap(\.message.number)
            #expect(Set(numbers) == Set(0..<1000))
            #expect(connection.epoch == 1)
        }
    }

    private func isMissing(_ result: PublishResult, _ exchange: String) -> Bool {
        guard case .unknown(let error) = result else { return false }
        return error.code == .notFound && error.replyCode == 404 && error.subject == exchange
    }

    // MARK: Connections that died

    @Test("P9: a message over a dead connection is sent again until it is confirmed, and consumed once by its id")
    func deadConnection() async throws {
        let fixture = try await Fixture()
        try await fixture.connected { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
            let publisher = await connection.publisher()
            var sent = 0
            for number in 0..<10 {
                #expect(try await fixture.broker.closeConnections(virtualHost: fixture.host.name) == 1)
                // Nobody has told the publisher: it writes, or waits for the next connection.
                var result: PublishResult?
                while result != .confirmed {
                    let publication = numbered(number..<number + 1, to: "q")[0]
                    let answer = try await publisher.publish(publication.message, to: publication.address)
                    #expect(answer == .confirmed || isLost(answer))
                    result = answer
                    sent += 1
                }
            }
            try await expectOnce(0..<10, in: "q", connection, atMost: sent)
            #expect(connection.epoch == 11)
        }
    }

    @Test("P9: connections closed in the middle of a window: no more than the window is unknown, and all is there once")
    func deadWindow() async throws {
        let fixture = try await Fixture()
        try await fixture.connected { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
            let publisher = await connection.publisher(window: .init(messages: 20))
            // Batch after batch, as long as the closing takes; once more where it came between two.
            var (closings, sent) = (0, 0)
            var rest: [AMQPPublication] = []
            while rest.isEmpty {
                async let closed = fixture.broker.closeConnections(virtualHost: fixture.host.name)
                closings += 1
                while rest.isEmpty, connection.epoch == closings {
                    let batch = numbered(sent..<sent + 200, to: "q")
                    let results = try await publisher.publish(batch)
                    #expect(results.allSatisfy { $0 == .confirmed || isLost($0) })
                    rest = zip(batch, results).filter { $1 != .confirmed }.map(\.0)
                    sent += batch.count
                }
                #expect(try await closed == 1)
            }
            #expect((1...20).contains(rest.count))
            #expect(try await publisher.publish(rest) == Array(repeating: .confirmed, count: rest.count))
            try await expectOnce(0..<sent, in: "q", connection, atMost: sent + rest.count)
            #expect(connection.epoch == closings + 1)
        }
    }

    @Test("A queue that went with its last consumer is declared again, and consumed on")
    func autoDeleted() async throws {
        let fixture = try await Fixture()
        try await fixture.connected { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q", isAutoDelete: true)]))
            let consumer = try await connection.consume("q")
            await connection.offendConsumers()
            while consumer.counts.restarts == 0 { try await Task.sleep(for: .milliseconds(5)) }
            let publisher = await connection.publisher()
            // Nowhere, until the queue is there again.
            while consumer.counts.delivered == 0 { _ = try await publisher.publish(numbered(7..<8, to: "q")) }
            #expect(try await consumer.take(1).map(\.message.number) == [7])
            #expect(connection.epoch == 1)
        }
    }

    @Test("Tasks that prefer an executor, and suspend at each await, get each its reply")
    func executorPreference() async throws {
        let fixture = try await Fixture()
        try await fixture.connected { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
            let publisher = await connection.publisher()
            try await withTaskExecutorPreference(QueueExecutor()) {
                try await withThrowingTaskGroup(of: Int.self) { group in
                    for number in 0..<30 {
                        group.addTask {
                            #expect(try await publisher.publish(numbered(number..<number + 1, to: "q")) == [.confirmed])
                            let consumer = try await connection.consume("q", AMQPConsumeOptions(prefetch: 1))
                            let first = try await consumer.take(1)[0].message.number
                            await consumer.close()
                            _ = try await connection.inspect(queue: "q")
                            return try #require(first)
                        }
                    }
                    var numbers: Set<Int> = []
                    for try await number in group { numbers.insert(number) }
                    #expect(numbers == Set(0..<30))
                }
            }
            #expect(connection.epoch == 1)
        }
    }

    /// Expects a queue to hold each number, once for who looks at message ids.
    private func expectOnce(
        _ numbers: Range<Int>, in queue: String, _ connection: AMQPConnection, atMost sent: Int
    ) async throws {
        let messages = try await connection.inspect(queue: queue).messages
        #expect(messages <= sent)
        var effects: [String: Int] = [:]
        for delivery in try await connection.consume(queue).take(messages) {
            let id = try #require(delivery.message.properties.messageID)
            // What a consumer does that has seen the id.
            guard effects[id] == nil else { continue }
            effects[id] = delivery.message.number
        }
        #expect(effects == Dictionary(uniqueKeysWithValues: numbers.map { (String($0), $0) }))
    }

    private func isLost(_ result: PublishResult) -> Bool {
        guard case .unknown(let error) = result else { return false }
        return error.code == .closedByBroker || error.code == .connectionLost
    }

    // MARK: Messages that are too large

    @Test("A message over maximumMessageSize is refused before anything is sent, with all that came with it")
    func tooLargeToSend() async throws {
        let fixture = try await Fixture()
        var configuration = try fixture.configuration()
        configuration.maximumMessageSize = 1000
        try await AMQPConnection.withConnection(configuration) { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
            let publisher = await connection.publisher()
            let error = await #expect(throws: AMQPError.self) {
                _ = try await publisher.publish(
                    numbered(0..<3, to: "q") + numbered(3..<4, to: "q", size: 1001) + numbered(4..<5, to: "q"))
            }
            #expect(error == AMQPError(.invalid, "a message of 1001 bytes, and maximumMessageSize is 1000"))
            let counts = await publisher.counts()
            #expect([counts.confirmed, counts.unknown, counts.unanswered, counts.waiting] == [0, 0, 0, 0])
            #expect(try await connection.inspect(queue: "q").messages == 0)
            #expect(try await publisher.publish(numbered(0..<1, to: "q", size: 1000)) == [.confirmed])
        }
    }

    /// A queue, and another for what it rejects.
    private static let withDeadLetters = AMQPTopology(queues: [
        AMQPQueue("dead"),
        AMQPQueue("q", arguments: ["x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"]),
    ])

    @Test("P15: deliveries over maximumMessageSize go to the dead letters, and all else goes on")
    func tooLargeToTake() async throws {
        let fixture = try await Fixture()
        try await fixture.connected { other in
            try await other.declare(Self.withDeadLetters)
            var publications: [AMQPPublication] = []
            // Of the larger ones one is of many frames, and one of whole frames.
            for number in 0..<40 {
                let size = number % 4 == 1 ? [1001, 131_064 * 2, 5_000_000, 1001][number / 4 % 4] : 1000
                publications += numbered(number..<number + 1, to: "q", size: size)
            }
            #expect(
                try await other.publisher().publish(publications) == Array(repeating: .confirmed, count: 40))
            var configuration = try fixture.configuration("limited")
            configuration.maximumMessageSize = 1000
            try await AMQPConnection.withConnection(configuration) { limited in
                let consumer = try await limited.consume("q", .init(prefetch: 3))
                let taken = try await consumer.take(30)
                #expect(taken.map(\.message.number) == (0..<40).filter { $0 % 4 != 1 })
                #expect(taken.allSatisfy { $0.message.body.count == 1000 })
                // The others are elsewhere, whole, and with the reason.
                let dead = try await other.consume("dead").take(10)
                #expect(dead.map(\.message.number) == (0..<40).filter { $0 % 4 == 1 })
                #expect(dead[2].message.body.count == 5_000_000)
                #expect(dead.allSatisfy { $0.message.properties.headers["x-first-death-reason"] == "rejected" })
                let counts = consumer.counts
                #expect([counts.delivered, counts.settled, counts.oversized] == [30, 30, 10])
                #expect([counts.stale, counts.repeated, counts.dropped, counts.restarts] == [0, 0, 0, 0])
                // The same connection and channel still serve.
                #expect(try await limited.publisher().publish(numbered(40..<41, to: "q")) == [.confirmed])
                #expect(try await consumer.take(1)[0].message.number == 40)
                #expect(limited.state == .open)
                #expect(limited.epoch == 1)
                await consumer.close()
                #expect(try await limited.inspect(queue: "q").messages == 0)
            }
        }
    }

    @Test("P15: a delivery over maximumMessageSize does not come again, and takes no place within the prefetch limit")
    func tooLargeToTakeAgain() async throws {
        let fixture = try await Fixture()
        try await fixture.connected { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q")]))
            let publisher = await connection.publisher()
            let all = numbered(0..<1, to: "q") + numbered(1..<101, to: "q", size: 1001) + numbered(101..<102, to: "q")
            #expect(try await publisher.publish(all) == Array(repeating: .confirmed, count: 102))
            let consumer = try await connection.consume("q", .init(prefetch: 2, maximumMessageSize: 1000))
            let iterator = consumer.makeAsyncIterator()
            let first = try #require(try await iterator.next())
            // The first is held meanwhile: a hundred pass through the one place that is left.
            let last = try #require(try await iterator.next())
            #expect(last.message.number == 101)
            #expect(last.ack())
            #expect(first.message.number == 0)
            #expect(first.ack())
            #expect(consumer.counts.oversized == 100)
            await consumer.close()
            #expect(try await connection.inspect(queue: "q").messages == 0)
            #expect(connection.epoch == 1)
        }
    }

    @Test("P15: each consumer may have a limit of its own, below and above the connection's")
    func limitOfConsumer() async throws {
        let fixture = try await Fixture()
        try await fixture.connected { other in
            try await other.declare(AMQPTopology(queues: ["none", "less", "more"].map { AMQPQueue($0) }))
            let publisher = await other.publisher()
            for queue in ["none", "less", "more"] {
                let sizes = [500, 501, 1000, 1001, 2000, 2001, 100]
                for (number, size) in sizes.enumerated() {
                    let publication = numbered(number..<number + 1, to: queue, size: size)
                    #expect(try await publisher.publish(publication) == [.confirmed])
                }
            }
            var configuration = try fixture.configuration("limited")
            configuration.maximumMessageSize = 1000
            try await AMQPConnection.withConnection(configuration) { limited in
                for (queue, limit, taken) in [("none", nil, 4), ("less", 500, 2), ("more", 2000, 6)] {
                    let consumer = try await limited.consume(queue, .init(maximumMessageSize: limit))
                    let sizes = try await consumer.take(taken).map(\.message.body.count)
                    #expect(sizes == [500, 501, 1000, 1001, 2000, 100].filter { $0 <= limit ?? 1000 })
                    #expect(consumer.counts.oversized == 7 - taken)
                    await consumer.close()
                    #expect(try await limited.inspect(queue: queue).messages == 0)
                }
                #expect(limited.epoch == 1)
            }
        }
    }
}

extension AMQPConnection {
    /// Has the broker close the channels of all consumers: they settle what never came.
    fileprivate func offendConsumers() {
        for channel in consumers.values.compactMap(\.channel) { send(.ack(tag: 999, isMultiple: false), on: channel) }
    }
}
