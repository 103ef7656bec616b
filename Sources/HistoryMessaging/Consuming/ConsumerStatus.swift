public import PersistentHistory
public import TidingsAMQP

/// What a consumer is doing, and what it has done since it was made.
public struct ConsumerStatus: Sendable, Hashable {
    /// What a consumer is doing.
    public enum State: Sendable, Hashable {
        /// Not running.
        case stopped
        /// Finding its place: reading tokens, loading contexts.
        case starting
        /// Merging, or waiting for something to merge.
        case running
        /// Something failed, and is tried again by itself.
        case retrying(attempt: Int, reason: String)
        /// Something failed too often. It waits for ``HistoryConsumer/retry()`` or ``HistoryConsumer/skip(reason:)``.
        case stalled(reason: String)
    }

    /// What it is doing.
    public internal(set) var state = State.stopped
    /// True where the store knows it as a consumer, so that nothing is purged that it needs.
    public internal(set) var isProtected = false
    /// Up to where everything is merged, durably; nil before it has found its place.
    public internal(set) var token: HistoryToken?
    /// Up to where it has acknowledged.
    public internal(set) var acknowledged: HistoryToken?
    /// The connection that deliveries come over; nil without a broker.
    public internal(set) var broker: AMQPConnectionState?
    /// What it has done.
    public internal(set) var counts = ConsumerCounts()
}

/// What a consumer has done since it was made.
public struct ConsumerCounts: Sendable, Hashable {
    /// Messages that came.
    public internal(set) var deliveries = 0
    /// Of these, those that were no history of this store, or could not be read: handed to the queue of dead messages.
    public internal(set) var dead = 0
    /// Messages that were rejected unread because of their size; looked at with each delivery and poll.
    public internal(set) var oversized = 0
    /// Of the deliveries, those whose transaction the store did not hold: a lost lineage, or forged.
    public internal(set) var beyondHead = 0
    /// Transactions merged.
    public internal(set) var transactions = 0
    /// Batches that they came in.
    public internal(set) var batches = 0
    /// How often merging failed.
    public internal(set) var failures = 0
    /// Batches that were skipped on somebody's word.
    public internal(set) var skipped = 0
    /// How often contexts were loaded anew because a token could not be used.
    public internal(set) var resyncs = 0
    /// How often history was lost for those who cannot be loaded anew.
    public internal(set) var losses = 0
    /// How often entities were loaded anew because history tells them only from there on.
    public internal(set) var reloads = 0
    /// How often the token's file was damaged.
    public internal(set) var damagedTokens = 0
    /// Acknowledgements that were taken.
    public internal(set) var acknowledgements = 0
    /// Acknowledgements that no cleaner's queue wanted.
    public internal(set) var unrouted = 0
    /// Replies of a cleaner to the registration that could not be read: it was asked again.
    public internal(set) var malformedReplies = 0
}
