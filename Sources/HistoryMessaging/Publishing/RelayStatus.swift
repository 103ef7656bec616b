public import TidingsAMQP

/// What a relay is doing, and has done since it was made.
public struct RelayStatus: Sendable, Hashable {
    /// Whether it is the store's relay.
    public enum Role: Sendable, Hashable {
        /// It does not run, or has no broker.
        case idle
        /// Another one is, on this host and of this process: it waits for its end.
        case waiting(holder: String)
        /// It is the one.
        case active
    }

    /// Whether it is the store's relay.
    public var role = Role.idle
    /// What its connection is doing; nil where there is none.
    public var broker: AMQPConnectionState?
    /// Messages that the broker has confirmed.
    public var confirmed = 0
    /// Messages that no queue wanted: they count as published.
    public var unrouted = 0
    /// Messages that left their changes out, because these are over the limit, this one's or the broker's.
    public var thin = 0
    /// Messages that the broker refused; they were sent again.
    public var nacked = 0
    /// Messages of which nobody knows whether the broker has them; they were sent again.
    public var unknown = 0
    /// Sequences that were purged before everything up to them was confirmed.
    public var purged = 0
    /// Everything in the store up to this sequence is published, by whomever.
    public var publishedThrough: Int64 = 0
}
