import PersistentHistory
import Synchronization
import TidingsSQLite

/// How long after their commits' beginning transactions are merged, their token durable.
final class MergeTimes: Sendable {
    private struct State {
        /// The sequence before the first that counts.
        var base: Int64 = .max
        /// When each commit began, in order.
        var times: [UInt64] = []
        /// How far the batch reaches that is being merged.
        var merging: Int64 = 0
        var latencies: [UInt64] = []
    }

    private let state = Mutex(State())

    /// Begins a slice, with the commit behind a sequence.
    func begin(after sequence: Int64, count: Int) {
        state.withLock { state in
            state = State(base: sequence)
            state.times.reserveCapacity(count)
            state.latencies.reserveCapacity(count)
        }
    }

    /// A commit begins.
    func commit() {
        let now = MonotonicClock.nanoseconds
        state.withLock { $0.times.append(now) }
    }

    /// A batch is merged.
    func merge(_ batch: HistoryBatch) { state.withLock { $0.merging = batch.token.sequence } }

    /// The token of the last batch is durable.
    func tokenIsDurable() {
        let now = MonotonicClock.nanoseconds
        state.withLock { state in
            let count = min(Int(state.merging - min(state.base, state.merging)), state.times.count)
            while state.latencies.count < count { state.latencies.append(now - state.times[state.latencies.count]) }
        }
    }

    var latencies: [UInt64] { state.withLock { $0.latencies } }
}
