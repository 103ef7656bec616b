internal import Glibc

/// Where a store reads the time that it records with a transaction.
///
/// The time is for people and for date filters: it orders nothing.
public protocol HistoryClock: Sendable {
    /// Microseconds since 1970-01-01T00:00:00Z.
    var microseconds: Int64 { get }
}

/// The system's clock.
public struct SystemHistoryClock: HistoryClock {
    /// Makes the clock.
    public init() {}

    /// Microseconds since 1970, by the system.
    public var microseconds: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000
    }
}
