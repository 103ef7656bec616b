public import PersistentHistory
internal import TidingsAMQP

/// A clock that stands still until it is told to move; any way, at any time.
public final class TestClock: HistoryClock {
    private let time: Locked<Int64>

    /// A clock that shows `microseconds` since 1970.
    public init(microseconds: Int64 = 1_700_000_000_000_000) { time = Locked(microseconds) }

    /// What the clock shows.
    public var microseconds: Int64 { time.withLock { $0 } }

    /// Moves the clock by a duration, which may be negative.
    public func advance(by duration: Duration) {
        let (seconds, attoseconds) = duration.components
        time.withLock { $0 += seconds * 1_000_000 + attoseconds / 1_000_000_000_000 }
    }

    /// Sets the clock.
    public func set(microseconds: Int64) { time.withLock { $0 = microseconds } }
}
