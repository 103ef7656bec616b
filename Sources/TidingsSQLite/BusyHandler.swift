internal import CTidingsSQLite
internal import Glibc

/// Waits for a lock in short jittered sleeps, and gives up after a bound.
///
/// SQLite's own timeout sleeps longer and longer, so that under contention the process that has waited longest
/// is the least likely to get the lock. Here the sleeps shorten with the wait, up to the point where somebody
/// clearly holds the lock for long, and then they lengthen to leave the processor alone.
///
/// [sqlite3_busy_handler](https://www.sqlite.org/c3ref/busy_handler.html)
final class BusyHandler {
    /// The bound of a wait, in nanoseconds.
    let timeout: UInt64
    private var start: UInt64 = 0
    private var random = SystemRandomNumberGenerator()

    init(timeout: Duration) {
        // As a real: what does not fit in 64 bits is longer than any process lives.
        self.timeout = UInt64(min(max(0, timeout / .nanoseconds(1)), 9e18))
    }

    /// Sleeps once. False where the wait has reached its bound and the statement must fail.
    func wait(attempt: Int32) -> Bool {
        let now = MonotonicClock.nanoseconds
        if attempt == 0 { start = now }
        let waited = now - start
        guard waited < timeout else { return false }
        let microseconds = UInt32.random(in: Self.range(waited: waited), using: &random)
        usleep(UInt32(min(UInt64(microseconds), (timeout - waited) / 1000 + 1)))
        return true
    }

    /// The bounds of a sleep, in microseconds.
    static func range(waited nanoseconds: UInt64) -> ClosedRange<UInt32> {
        switch nanoseconds {
        case ..<5_000_000: 100...500
        case ..<20_000_000: 50...250
        case ..<500_000_000: 20...100
        default: 500...2000
        }
    }

    /// Installs the handler. The connection keeps an unretained reference: its owner must outlive it.
    func install(on handle: OpaquePointer) {
        let context = unsafe Unmanaged.passUnretained(self).toOpaque()
        unsafe sqlite3_busy_handler(
            handle,
            { context, attempt in
                guard let context = unsafe context else { return 0 }
                let handler = unsafe Unmanaged<BusyHandler>.fromOpaque(context).takeUnretainedValue()
                return handler.wait(attempt: attempt) ? 1 : 0
            }, context)
    }
}

/// The clock that never steps, for waits and measurements.
package enum MonotonicClock {
    /// Nanoseconds since some moment before the process started.
    package static var nanoseconds: UInt64 {
        var time = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
