import Glibc
import TidingsSQLite

/// What one slice through the broker came to.
struct RunFigures: Sendable {
    /// Messages in a second.
    let rate: Double
    /// Microseconds of processor time for a message.
    let cpu: Double
    /// Quantiles of the messages' latencies, in microseconds.
    let p50: Double
    let p99: Double
}

/// Takes the figures of a slice, from its making on.
struct RunMeter: Sendable {
    /// Whose processor time counts.
    enum Scope: Sendable {
        /// The calling thread's, where it does all the work.
        case thread
        /// The whole process's.
        case process

        fileprivate var clock: clockid_t {
            switch self {
            case .thread: CLOCK_THREAD_CPUTIME_ID
            case .process: CLOCK_PROCESS_CPUTIME_ID
            }
        }
    }

    private let scope: Scope
    private let processorStart: UInt64
    private let start: UInt64

    init(_ scope: Scope) {
        self.scope = scope
        processorStart = Self.nanoseconds(scope.clock)
        start = MonotonicClock.nanoseconds
    }

    /// Ends the slice, in which so many messages had these latencies in nanoseconds.
    func figures(latencies: [UInt64]) -> RunFigures {
        let time = Double(MonotonicClock.nanoseconds - start)
        let processor = Double(Self.nanoseconds(scope.clock) - processorStart)
        let count = Double(latencies.count)
        let sorted = latencies.map { Double($0) / 1000 }.sorted()
        return RunFigures(
            rate: count / time * 1e9, cpu: processor / 1000 / count, p50: Statistics.quantile(0.5, sorted),
            p99: Statistics.quantile(0.99, sorted))
    }

    private static func nanoseconds(_ clock: clockid_t) -> UInt64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
