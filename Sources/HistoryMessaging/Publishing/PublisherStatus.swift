public import TidingsAMQP

/// What a publisher has done since it was made, and what it is doing.
public struct PublisherStatus: Sendable, Hashable {
    /// True while it runs.
    public var isRunning = false
    /// What its connection is doing; nil where there is none: no broker, or not running.
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
    /// Sequences that were purged before they were read, own or not.
    public var purged = 0
    /// Messages that wait for the broker's answer.
    public var waiting = 0
    /// Every own transaction up to this sequence is published.
    public var confirmedThrough: Int64 = 0
    /// The relay in the same process, where there is one.
    public var relay: RelayStatus?
}
