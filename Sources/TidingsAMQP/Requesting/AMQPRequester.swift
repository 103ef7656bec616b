internal import Synchronization

/// Sends requests as messages, and collects the replies to them: from one service, or from all that answer.
///
/// The replies come over a named exchange, which must exist, to a queue of the requester's own: the request's `replyTo`
/// is that queue's name and the key that it is bound by, its `correlationID` is unique. The queue survives a lost
/// connection, and expires a minute after the requester is gone. At most once: a request that fails may have been
/// served or not, so that what is asked for should bear to be asked twice.
///
/// ```swift
/// try await AMQPRequester.withRequester(on: connection, replyExchange: "replies") { requester in
///     let reply = try await requester.request(AMQPMessage("status"), to: address, within: .seconds(5))
/// }
/// ```
public final class AMQPRequester: Sendable {
    /// The queue that replies come to.
    public let replyQueue: String

    private let publisher: AMQPPublisher
    private let consumer: AMQPConsumer
    private let connection: AMQPConnection
    /// Whoever waits for replies, by correlation id.
    private let waiting = Locked<[String: AsyncStream<AMQPMessage>.Continuation]>([:])
    private let counters = Locked((last: UInt64(0), strays: 0))

    /// How many replies one request keeps unread; further ones are dropped.
    private static let repliesKept = 1024

    private init(
        replyQueue: String, publisher: AMQPPublisher, consumer: AMQPConsumer, connection: AMQPConnection
    ) {
        self.replyQueue = replyQueue
        self.publisher = publisher
        self.consumer = consumer
        self.connection = connection
    }

    /// Lends a requester to a closure: makes its queue, reads replies meanwhile, deletes the queue at the end.
    ///
    /// Throws what the closure throws; or why the queue cannot be made, such as `notFound` for the exchange.
    public static func withRequester<Value: Sendable>(
        on connection: AMQPConnection, replyExchange: String,
        _ body: @Sendable (AMQPRequester) async throws -> Value
    ) async throws -> Value {
        let name = "\(replyExchange).\(String(UInt64.random(in: .min ... .max), radix: 36))"
        // Not exclusive: the next connection finds it again, with the replies that came meanwhile.
        let queue = AMQPQueue(name, arguments: ["x-expires": 60_000])
        let binding = AMQPBinding(queue: name, exchange: replyExchange, key: name)
        try await connection.declare(AMQPTopology(queues: [queue], bindings: [binding]))
        let publisher = await connection.publisher()
        let consumer: AMQPConsumer
        do {
            consumer = try await connection.consume(name)
        } catch {
            // Else each attempt would leave a channel, and a queue to declare on every later connection.
            await publisher.close()
            try? await connection.delete(queue: name)
            throw error
        }
        let requester = AMQPRequester(
            replyQueue: name, publisher: publisher, consumer: consumer, connection: connection)
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await requester.readReplies() }
            do {
                let value = try await body(requester)
                await requester.close()
                try await group.waitForAll()
                return value
            } catch {
                await requester.close()
                throw error
            }
        }
    }

    /// How many replies came that nobody waited for any more.
    public var strayReplies: Int { counters.withLock { $0.strays } }

    /// Sends a request and waits for the first reply.
    ///
    /// Throws `timedOut` where none comes within the limit, `notFound` where no queue takes the request, and why it could
    /// not be published, or is not known to be.
    public func request(
        _ message: AMQPMessage, to address: AMQPAddress, within limit: Duration
    ) async throws -> AMQPMessage {
        guard let reply = try await exchange(message, to: address, within: limit, atMost: 1).first else {
            throw AMQPError(
                .timedOut, "no reply to a request for '\(address.routingKey)' within \(limit): is the service running?")
        }
        return reply
    }

    /// Sends a request to all who serve it, and gives the replies that come within the limit, in the order of coming.
    ///
    /// It takes the whole limit, or until there are `count` replies. Throws as ``request(_:to:within:)``, but for
    /// `timedOut`: no reply is an empty list.
    public func requestAll(
        _ message: AMQPMessage, to address: AMQPAddress, within limit: Duration, atMost count: Int = .max
    ) async throws -> [AMQPMessage] {
        try await exchange(message, to: address, within: limit, atMost: count)
    }

    private func exchange(
        _ message: AMQPMessage, to address: AMQPAddress, within limit: Duration, atMost count: Int
    ) async throws -> [AMQPMessage] {
        let id = nextID()
        let (stream, continuation) = AsyncStream.makeStream(
            of: AMQPMessage.self, bufferingPolicy: .bufferingOldest(Self.repliesKept))
        waiting.withLock { $0[id] = continuation }
        defer { forget(id) }
        var request = message
        request.properties.replyTo = replyQueue
        request.properties.correlationID = id
        let publication = request
        let wasPublished = Flag()
        return try await withThrowingTaskGroup(of: [AMQPMessage]?.self) { group in
            group.addTask {
                try await Task.sleep(for: limit)
                self.forget(id)
                return nil
            }
            group.addTask {
                try Self.check(try await self.publisher.publish(publication, to: address), address)
                wasPublished.raise()
                var replies: [AMQPMessage] = []
                for await reply in stream {
                    replies.append(reply)
                    if replies.count >= count { break }
                }
                return replies
            }
            defer { group.cancelAll() }
            // Nil is the limit. The replies are there at once then, unless the request is still being published.
            guard let first = try await group.next() ?? nil else {
                return wasPublished.value ? try await group.next().flatMap(\.self) ?? [] : []
            }
            return first
        }
    }

    private static func check(_ result: PublishResult, _ address: AMQPAddress) throws {
        switch result {
        case .confirmed: break
        case .returned:
            throw AMQPError(
                .notFound, "nobody takes requests for '\(address.routingKey)' of exchange '\(address.exchange)'",
                replyCode: 312, subject: address.exchange)
        case .nacked:
            throw AMQPError(.closedByBroker, "the broker refused the request for '\(address.routingKey)' (nack)")
        case .unknown(let error): throw error
        }
    }

    private func nextID() -> String {
        let number = counters.withLock { counters in
            counters.last += 1
            return counters.last
        }
        return "\(replyQueue)-\(number)"
    }

    /// Ends the wait for replies to a request.
    private func forget(_ id: String) { waiting.withLock { $0.removeValue(forKey: id) }?.finish() }

    private func readReplies() async throws {
        for try await delivery in consumer {
            delivery.ack()
            let waiter = waiting.withLock { $0[delivery.message.properties.correlationID ?? ""] }
            if let waiter { waiter.yield(delivery.message) } else { counters.withLock { $0.strays += 1 } }
        }
    }

    private func close() async {
        await consumer.close()
        await publisher.close()
        // It would expire by itself: this only is sooner.
        try? await connection.delete(queue: replyQueue)
    }
}

/// Whether something has happened.
private final class Flag: Sendable {
    private let raised = Atomic(false)

    var value: Bool { raised.load(ordering: .acquiring) }

    func raise() { raised.store(true, ordering: .releasing) }
}

extension AMQPPublisher {
    /// Answers a request: publishes a message to the queue that the request names, with its correlation id.
    ///
    /// The result is ``PublishResult/returned(code:text:)`` where whoever asked is gone. Throws `invalid` where the
    /// delivery asks for no reply.
    ///
    /// - Parameter exchange: the exchange that replies go over.
    public func reply(
        _ message: AMQPMessage, to request: AMQPDelivery, exchange: String
    ) async throws -> PublishResult {
        guard let queue = request.message.properties.replyTo else {
            throw AMQPError(
                .invalid, "a message for '\(request.address.routingKey)' asks for no reply: it has no reply-to")
        }
        var reply = message
        reply.properties.correlationID = request.message.properties.correlationID
        return try await publish(reply, to: AMQPAddress(exchange: exchange, routingKey: queue))
    }
}
