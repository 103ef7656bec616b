/// What a connection is doing.
public enum AMQPConnectionState: Sendable, Hashable, CustomStringConvertible {
    /// Not begun: ``AMQPConnection/run()`` has not been called.
    case idle
    /// On its first way to the broker.
    case connecting
    /// In use.
    case open
    /// In use, but the broker takes no messages: an alarm of its memory or disk.
    case blocked(reason: String)
    /// Lost, or not reached: the next attempt comes.
    case recovering(attempt: Int, since: ContinuousClock.Instant, error: AMQPError)
    /// At its end, for good. Without an error it was closed by the program.
    case closed(AMQPError?)

    /// One line.
    public var description: String {
        switch self {
        case .idle: "idle"
        case .connecting: "connecting"
        case .open: "open"
        case .blocked(let reason): "blocked by the broker: \(reason)"
        case .recovering(let attempt, _, let error): "recovering, attempt \(attempt): \(error.message)"
        case .closed(nil): "closed"
        case .closed(let error?): "closed: \(error.message)"
        }
    }

    /// True where requests can be made.
    var isConnected: Bool {
        switch self {
        case .open, .blocked: true
        default: false
        }
    }
}
