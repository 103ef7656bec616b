/// Publishes with confirms, over a channel of its own that is opened anew whenever it was lost.
///
/// At most a window of messages waits for the broker's answer; while the window is full, the broker is blocked by an
/// alarm or the connection is being recovered, callers are suspended. Nothing is kept for them beyond what they hold.
public final class AMQPPublisher: Sendable {
    /// How much may wait for the broker's answer.
    public struct Window: Sendable, Hashable {
        /// Messages.
        public var messages: Int
        /// Bytes of their bodies. A larger message goes alone.
        public var bytes: Int

        /// A window of 1,000 messages and 1 MiB.
        ///
        /// - Precondition: both are positive.
        public init(messages: Int = 1000, bytes: Int = 1 << 20) {
            precondition(messages > 0 && bytes > 0, "a window has room for something")
            self.messages = messages
            self.bytes = bytes
        }
    }

    private let connection: AMQPConnection
    private let id: Int

    init(connection: AMQPConnection, id: Int) {
        self.connection = connection
        self.id = id
    }

    /// Publishes a message and waits for the broker's answer.
    ///
    /// Throws `invalid` where the message can never be sent, `closed` where the connection was closed before it was
    /// written, `CancellationError` where the task was cancelled before that. Once it is written there is a result, and
    /// after a cancellation that is ``PublishResult/unknown(_:)``.
    public func publish(_ message: AMQPMessage, to address: AMQPAddress) async throws -> PublishResult {
        try await publish([AMQPPublication(message, to: address)])[0]
    }

    /// Publishes messages in order, in windows, and waits for all answers: one result for each message, in order.
    ///
    /// Throws as ``publish(_:to:)`` does where nothing was written. Where a part was written, the results of the rest
    /// are ``PublishResult/unknown(_:)``.
    public func publish(_ publications: [AMQPPublication]) async throws -> [PublishResult] {
        try await publish(publications, didEnqueue: {})
    }

    /// Publishes as ``publish(_:)`` does, and calls `didEnqueue` as soon as these messages have their place: whoever calls
    /// after that comes behind them.
    package func publish(
        _ publications: [AMQPPublication], didEnqueue: @escaping @Sendable () -> Void
    ) async throws -> [PublishResult] {
        guard !publications.isEmpty else { return [] }
        let limits = MessageLimits(frameSize: 131_072)
        for publication in publications {
            try limits.check(publication.message, to: publication.address)
            guard publication.message.body.count <= connection.configuration.maximumMessageSize else {
                throw AMQPError(
                    .invalid,
                    "a message of \(publication.message.body.count) bytes, and maximumMessageSize is "
                        + "\(connection.configuration.maximumMessageSize)")
            }
        }
        let batch = PublishBatch.Identity.next()
        return try await withTaskCancellationHandler {
            try await connection.publish(publications, batch: batch, publisher: id, didEnqueue: didEnqueue)
        } onCancel: {
            connection.mailbox.cancel(batch)
        }
    }

    /// What the publisher has done since it was made.
    public func counts() async -> PublishCounts { await connection.counts(publisher: id) }

    /// Ends the publisher: what waits fails with `closed`, what is unanswered is reported unknown.
    public func close() async { await connection.closePublisher(id) }
}

/// A message and where it goes.
public struct AMQPPublication: Sendable, Hashable {
    /// The message.
    public var message: AMQPMessage
    /// Where it goes.
    public var address: AMQPAddress
    /// True where the broker shall say that no queue wanted it, rather than drop it.
    public var isMandatory: Bool

    /// Makes a publication; mandatory unless said otherwise.
    public init(_ message: AMQPMessage, to address: AMQPAddress, isMandatory: Bool = true) {
        self.message = message
        self.address = address
        self.isMandatory = isMandatory
    }
}

/// What a publisher has done since it was made.
public struct PublishCounts: Sendable, Hashable {
    /// Messages confirmed.
    public var confirmed = 0
    /// Messages that the broker refused.
    public var nacked = 0
    /// Messages that no queue wanted.
    public var returned = 0
    /// Messages of which nobody knows.
    public var unknown = 0
    /// Messages that wait for the broker's answer now.
    public var unanswered = 0
    /// Messages that wait to be written now.
    public var waiting = 0
}
