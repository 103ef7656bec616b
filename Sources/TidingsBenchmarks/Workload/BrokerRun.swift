/// The types of queue that are measured.
enum QueueType: String, CaseIterable, Sendable {
    /// Durable, of the classic type.
    case classic
    /// Replicated; on a single broker, with one member.
    case quorum
    /// Of the classic type, and gone with the broker.
    case transient
}

/// What messages go through in one slice of a measurement: the same for a side and its floor.
struct BrokerRun: Sendable {
    /// A queue that is there, and nobody else's.
    let queue: String
    let count: Int
    /// Bytes of a body. The first eight are the message's number from 1, in the machine's order.
    let size: Int
    /// Messages under way: published and not confirmed, or delivered and not acknowledged.
    let window: Int

    /// Deliveries that one acknowledgement settles, by its flag `multiple`; never so many that the window closes.
    var acknowledgedTogether: Int { min(100, (window + 1) / 2) }

    /// The bound of unacknowledged deliveries in a round trip: so wide that an ack under way never holds a delivery up.
    var roundTripPrefetch: Int { 2 * window + 10 }
}
