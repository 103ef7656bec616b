/// A message that the broker has handed over, to be settled once: acked or rejected.
///
/// Until then the broker keeps it, counts it against the prefetch limit, and after its own timeout (30 minutes) closes
/// the channel. Settling twice, or after the connection was lost, does nothing and is counted: the broker delivers such
/// a message again.
public struct AMQPDelivery: Sendable {
    /// The message.
    public let message: AMQPMessage
    /// Where it was published to.
    public let address: AMQPAddress
    /// True where the broker has delivered it before, to somebody.
    public let isRedelivered: Bool

    /// The delivery without its body and properties: to be settled later without holding memory until then.
    package var receipt: AMQPDelivery {
        AMQPDelivery(
            message: AMQPMessage([]), address: address, isRedelivered: isRedelivered, tag: tag, generation: generation,
            source: source)
    }

    let tag: UInt64
    /// The channel's, of those that its consumer has had.
    var generation = 0
    let source: DeliveryBuffer

    /// Tells the broker that the message is dealt with.
    ///
    /// - Returns: false where it was settled before, or its channel is gone.
    @discardableResult
    public func ack() -> Bool { source.settle(generation) { [tag] in $0.ack(tag: tag) } }

    /// Gives the message back: to the queue, where `requeue`; else it is dropped, or dead-lettered.
    ///
    /// - Returns: false where it was settled before, or its channel is gone.
    @discardableResult
    public func reject(requeue: Bool) -> Bool {
        source.settle(generation) { [tag] in $0.reject(tag: tag, requeue: requeue) }
    }
}

/// What a consumer has done since it was made.
public struct ConsumeCounts: Sendable, Hashable {
    /// Deliveries that came.
    public var delivered = 0
    /// Deliveries acked or rejected.
    public var settled = 0
    /// Settlements of deliveries whose channel was gone: no-ops.
    public var stale = 0
    /// Settlements of deliveries that were settled already: no-ops.
    public var repeated = 0
    /// Deliveries that were dropped unread because their channel was gone; the broker delivers them again.
    public var dropped = 0
    /// How often consuming was begun anew: after a lost connection, a closed channel, a cancel by the broker.
    public var restarts = 0
}
