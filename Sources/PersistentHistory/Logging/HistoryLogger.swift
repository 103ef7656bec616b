/// How much a log entry matters.
public enum HistoryLogLevel: Int, Sendable, Hashable, Comparable, CaseIterable {
    /// Every step.
    case trace
    /// What helps to follow the work.
    case debug
    /// What an operator wants to know once: started, recovered, resynced.
    case info
    /// What needs attention some time.
    case warning
    /// What needs attention now.
    case error

    /// By how much they matter.
    public static func < (left: HistoryLogLevel, right: HistoryLogLevel) -> Bool { left.rawValue < right.rawValue }

    /// The name, as in a configuration.
    public var name: String { String(describing: self) }
}

/// One entry of a log. Carries no row values and no credentials.
public struct HistoryLogEntry: Sendable {
    /// Which agent says it, such as `consumer`.
    public let service: String
    /// What happened, in one line.
    public let message: String
    /// Names and values that machines look for, in order.
    public let fields: [(name: String, value: String)]

    /// Makes an entry.
    public init(_ service: String, _ message: String, _ fields: [(name: String, value: String)] = []) {
        self.service = service
        self.message = message
        self.fields = fields
    }
}

/// Where agents write what happens to them. Every agent takes one.
public protocol HistoryLogger: Sendable {
    /// Takes an entry; `entry` is only called where the level is of interest. Must not block for long.
    func log(_ level: HistoryLogLevel, _ entry: () -> HistoryLogEntry)
}

/// Writes nothing.
public struct SilentLogger: HistoryLogger {
    /// Makes the logger.
    public init() {}
    /// Does nothing.
    public func log(_ level: HistoryLogLevel, _ entry: () -> HistoryLogEntry) {}
}
