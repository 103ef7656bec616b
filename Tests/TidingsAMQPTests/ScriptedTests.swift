import Foundation
import Testing
import TidingsTestKit

@testable import TidingsAMQP

/// Moments that a real broker cannot be brought to choose.
@Suite(.timeLimit(.minutes(1)))
struct ScriptedTests {
    private func configuration(port: UInt16) throws -> AMQPConfiguration {
        var configuration = try AMQPConfiguration(urls: "amqp://127.0.0.1:\(port)", name: "test")
        configuration.recovery = .always(Backoff(first: .milliseconds(10), longest: .milliseconds(10)))
        return configuration
    }

    private func connected<Value: Sendable>(
        to broker: ScriptedBroker, _ body: @Sendable (AMQPConnection) async throws -> Value
    ) async throws -> Value {
        try await AMQPConnection.withConnection(configuration(port: broker.port), body)
    }

    @Test(
        "A channel that ends with the reply that makes it ready is used no more",
        arguments: ScriptedBroker.End.allCases)
    func endsWithReply(end: ScriptedBroker.End) async throws {
        let broker = try ScriptedBroker { question in
            question.method == "confirm.select" && question.repetition == 0 ? .ending(end) : .usual
        }
        try await connected(to: broker) { connection in
            let publisher = await connection.publisher()
            let publication = numbered(0..<1, to: "q")
            // Where the channel alone ends, a call that waits for it is told; the next one opens another.
            while await (try? publisher.publish(publication)) != [.confirmed] {}
        }
        let ready = ["channel.open 1", "confirm.select 1"]
        let methods =
            switch end {
            case .connection: [ready + ["connection.close-ok 0"], ready + ["basic.publish 1", "connection.close 0"]]
            case .channel: [ready + ["channel.close-ok 1"] + ready + ["basic.publish 1", "connection.close 0"]]
            }
        #expect(broker.methods == methods)
    }

    @Test("A broker that takes long to read a message, and gives signs of life meanwhile, is not given up")
    func slowReader() async throws {
        let broker = try ScriptedBroker { $0.method == "basic.publish" ? .slow : .usual }
        var configuration = try configuration(port: broker.port)
        configuration.heartbeat = .seconds(1)
        try await AMQPConnection.withConnection(configuration) { connection in
            let message = AMQPMessage([UInt8](repeating: 1, count: 40_000_000))
            let result = try await connection.publisher().publish(message, to: .queue("q"))
            #expect(result == .confirmed)
            #expect(connection.epoch == 1)
        }
    }

    @Test("An address that takes connections and says nothing leaves time for the next one")
    func silentAddress() async throws {
        let silent = try LocalSocket()
        let broker = try ScriptedBroker(at: LocalSocket("127.0.0.2", port: silent.port))
        let configuration = try configuration(port: broker.port)
        let watchdog = try SocketWatchdog.shared()
        let frameSize = try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                let opening = ConnectionOpening(
                    endpoint: configuration.endpoints[0], configuration: configuration, deadline: .now + .seconds(3),
                    watchdog: watchdog, onSocket: { _ in })
                continuation.resume(with: Result { try opening.open(["127.0.0.1", "127.0.0.2"]).frameSize })
            }
        }
        #expect(frameSize == 131_072)
    }

    @Test("A cancellation ends at once what waits for the broker, whatever time a later close would allow")
    func closeAfterCancellation() async throws {
        let broker = try ScriptedBroker { $0.method == "channel.open" ? .nothing : .usual }
        var configuration = try configuration(port: broker.port)
        configuration.replyTimeout = .seconds(60)
        let connection = try AMQPConnection(configuration)
        let run = Task { try await connection.run() }
        _ = await connection.publisher()
        while broker.methods != [["channel.open 1"]] { try await Task.sleep(for: .milliseconds(5)) }
        let start = ContinuousClock.now
        run.cancel()
        await connection.close(within: .seconds(60))
        await #expect(throws: CancellationError.self) { try await run.value }
        #expect(ContinuousClock.now - start < .seconds(10))
    }

    @Test("A connection that is being made is given up when the time to close is over")
    func closeWhileConnecting() async throws {
        let full = try LocalSocket(backlog: 0)
        let clients = full.fill()
        defer { for client in clients { close(client) } }
        var configuration = try configuration(port: full.port)
        configuration.connectTimeout = .seconds(60)
        let connection = try AMQPConnection(configuration)
        async let ended: Void = connection.run()
        while await !connection.isOpening { try await Task.sleep(for: .milliseconds(5)) }
        let start = ContinuousClock.now
        await connection.close(within: .milliseconds(100))
        try await ended
        #expect(ContinuousClock.now - start < .seconds(10))
    }

    @Test("A request while the connection is being made is told that it was lost, not that it is closed")
    func requestWhileConnecting() async throws {
        let silent = try LocalSocket()
        let connection = try AMQPConnection(configuration(port: silent.port))
        async let ended: Void = connection.run()
        while await !connection.isOpening { try await Task.sleep(for: .milliseconds(5)) }
        #expect(await connection.refusalOfChannel()?.code == .connectionLost)
        await connection.close(within: .zero)
        try await ended
        #expect(await connection.refusalOfChannel()?.code == .closed)
    }

    @Test("A requester that may not read its replies leaves no channel and no queue behind")
    func requesterRefused() async throws {
        let broker = try ScriptedBroker { $0.method == "basic.consume" ? .refusal(403) : .usual }
        try await connected(to: broker) { connection in
            for _ in 0..<2 {
                let error = await #expect(throws: AMQPError.self) {
                    try await AMQPRequester.withRequester(on: connection, replyExchange: "replies") { _ in }
                }
                #expect(error?.code == .accessRefused)
            }
            #expect(await connection.numberOfPublishers == 0)
            #expect(await connection.topology.isEmpty)
        }
        #expect(broker.questions.count { $0.method == "queue.delete" } == 2)
    }

    @Test("A queue that is deleted while others are restored is not declared again")
    func deletedDuringRestore() async throws {
        let (restores, restoring) = AsyncStream.makeStream(of: Void.self)
        let mayGoOn = DispatchSemaphore(value: 0)
        let broker = try ScriptedBroker { question in
            if question.method == "queue.declare", question.queue == "a", question.repetition == 1 {
                restoring.yield()
                mayGoOn.wait()
            }
            return .usual
        }
        try await connected(to: broker) { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("a"), AMQPQueue("b"), AMQPQueue("c")]))
            await connection.restore()
            var iterator = restores.makeAsyncIterator()
            await iterator.next()
            async let deletion: Void = connection.delete(queue: "b")
            while await connection.topology.queues.count == 3 { try await Task.sleep(for: .milliseconds(1)) }
            mayGoOn.signal()
            try await deletion
            while broker.declared.count < 5 { try await Task.sleep(for: .milliseconds(1)) }
        }
        #expect(broker.declared == ["a", "b", "c", "a", "c"])
    }
}

extension AMQPConnection {
    fileprivate var numberOfPublishers: Int { publishers.count }

    /// Why no channel can be opened; nil where one was.
    fileprivate func refusalOfChannel() async -> AMQPError? {
        do throws(AMQPError) {
            _ = try await openChannel(.requests)
            return nil
        } catch {
            return error
        }
    }

    /// True while a connection is being made.
    fileprivate var isOpening: Bool { opening != nil }

    /// Declares again what is to be there, as after a deleted queue.
    fileprivate func restore() {
        (mustDeclare, needsChannels) = (true, true)
        signal()
    }
}

extension ScriptedBroker {
    /// The queues that were declared, in order.
    fileprivate var declared: [String] {
        questions.filter { $0.method == "queue.declare" }.compactMap(\.queue)
    }
}
