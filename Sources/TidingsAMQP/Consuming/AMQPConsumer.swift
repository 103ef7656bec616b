/// The deliveries of a queue, as a sequence; read by as many tasks as wished, each delivery going to one.
///
/// It outlives the connection: after a recovery, a channel closed by the broker or a queue that was declared again it goes
/// on, and what was unsettled comes again. It ends without an error when it, or the connection, is closed, and with one
/// where the queue is gone for good or the broker refuses to serve it.
public final class AMQPConsumer: AsyncSequence, Sendable {
    /// What the sequence gives.
    public typealias Element = AMQPDelivery

    /// The queue.
    public let queue: String

    private let connection: AMQPConnection
    private let id: Int
    private let buffer: DeliveryBuffer

    init(queue: String, connection: AMQPConnection, id: Int, buffer: DeliveryBuffer) {
        self.queue = queue
        self.connection = connection
        self.id = id
        self.buffer = buffer
    }

    /// Reads the deliveries. A task that is cancelled while it waits gets nil.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let buffer: DeliveryBuffer

        /// The next delivery; nil at the end.
        public func next() async throws -> AMQPDelivery? { try await buffer.next() }

        /// The next delivery; nil at the end.
        public func next(isolation actor: isolated (any Actor)?) async throws -> AMQPDelivery? {
            try await buffer.next()
        }
    }

    /// A reader of the deliveries.
    public func makeAsyncIterator() -> Iterator { Iterator(buffer: buffer) }

    /// What the consumer has done since it was made.
    public var counts: ConsumeCounts { buffer.counts }

    /// Ends consuming: what was not settled goes back to the queue.
    public func close() async { await connection.closeConsumer(id) }
}

/// How a queue is consumed.
public struct AMQPConsumeOptions: Sendable, Hashable {
    /// How many unsettled deliveries there may be at once, at least 1: the bound of the buffer too.
    public var prefetch: UInt16
    /// True where nobody else may consume the queue meanwhile.
    public var isExclusive: Bool
    /// The largest body in bytes that this consumer takes; nil is ``AMQPConfiguration/maximumMessageSize``. It may be
    /// less or more than that. A larger one is rejected without requeueing.
    public var maximumMessageSize: Int?
    /// Further arguments, such as `x-priority` or `x-stream-offset`.
    public var arguments: AMQPTable

    /// Makes options.
    ///
    /// - Precondition: `prefetch` is positive: without a limit the buffer had no bound.
    public init(
        prefetch: UInt16 = 500, isExclusive: Bool = false, maximumMessageSize: Int? = nil, arguments: AMQPTable = [:]
    ) {
        precondition(prefetch > 0, "a prefetch limit of 0 is without limit")
        self.maximumMessageSize = maximumMessageSize
        self.prefetch = prefetch
        self.isExclusive = isExclusive
        self.arguments = arguments
    }
}

/// A consumer's side on the connection's thread.
final class ConsumerState {
    let id: Int
    let queue: String
    let options: AMQPConsumeOptions
    let buffer: DeliveryBuffer
    /// The channel, where it is open and consuming.
    var channel: Channel?
    /// Attempts since it last consumed.
    var attempts = 0
    /// When it may be tried again.
    var retryAt: ContinuousClock.Instant?
    /// Whoever waits for it to begin.
    var starter: CheckedContinuation<Void, any Error>?

    init(id: Int, queue: String, options: AMQPConsumeOptions, buffer: DeliveryBuffer) {
        self.id = id
        self.queue = queue
        self.options = options
        self.buffer = buffer
    }

    func started() {
        starter?.resume()
        starter = nil
    }

    /// Ends it, for good.
    func end(_ error: AMQPError?) {
        channel = nil
        buffer.lose()
        buffer.end(error)
        starter?.resume(
            throwing: error ?? AMQPError(.closed, "the connection was closed before '\(queue)' was consumed"))
        starter = nil
    }
}
