public import TidingsAMQP

/// What a cleaner has done, and is doing.
public struct CleanerStatus: Sendable {
    /// True from the start of ``HistoryCleaner/run()`` to its end.
    public var isRunning = false
    /// Who cleans this store instead: the host and process; nil where nobody is waited for.
    public var waitingFor: String?
    /// The connection that acknowledgements and commands come over; nil without a broker, or where it does not run.
    public var broker: AMQPConnectionState?
    /// Acknowledgements that were further than the consumer's last one.
    public var recorded = 0
    /// Acknowledgements that said nothing new.
    public var known = 0
    /// Messages that were refused, by the reason.
    public var refused: [String: Int] = [:]
    /// Messages of more than a mebibyte: rejected unread, and kept nowhere.
    public var oversized = 0
    /// Refused messages that the broker has among the dead ones.
    public var dead = 0
    /// Commands that were carried out, or answered with why not.
    public var commands = 0
    /// Cleanings that were carried out.
    public var cleanings = 0
    /// Transactions that they have removed.
    public var removed = 0
    /// Epochs that were begun.
    public var newEpochs = 0
    /// What keeps it from its work and does not pass by itself, with the remedy; nil where nothing does. It tries again.
    public var failure: String?
    /// What the last cleaning has done, or what has blocked it.
    public var latest: CleaningReport?
}
