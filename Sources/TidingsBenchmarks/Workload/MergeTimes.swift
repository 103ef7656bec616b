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
        /// How far the last durable token reaches.
        var durable: Int64 = 0
        var waiter: (sequence: Int64, continuation: CheckedContinuation<Void, Never>)?

        /// Who waits, where the wait is over.
        mutating func takeWaiter(whatever: Bool = false) -> CheckedContinuation<Void, Never>? {
            guard let waiter, whatever || durable >= waiter.sequence else { return nil }
            self.waiter = nil
            return waiter.continuation
        }
    }

    private let state = Mutex(State())

    /// Begins a slice, with the commit behind a sequence.
    func begin(after sequence: Int64, count: Int) {
        state.withLock { state in
            state.base = sequence
            state.times = []
            state.latencies = []
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
        let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
            state.durable = state.merging
            let count = min(Int(state.merging - min(state.base, state.merging)), state.times.count)
            while state.latencies.count < count { state.latencies.append(now - state.times[state.latencies.count]) }
            return state.takeWaiter()
        }
        waiter?.resume()
    }

    /// Waits until a token that reaches so far is durable, and nothing but that: who asks a consumer itself to catch up
    /// makes it look into the store at once, whether or not a delivery has come.
    func waitUntilDurable(through sequence: Int64) async throws {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let waiter = state.withLock { state in
                    state.waiter = (sequence, continuation)
                    return Task.isCancelled ? state.takeWaiter(whatever: true) : state.takeWaiter()
                }
                waiter?.resume()
            }
        } onCancel: {
            state.withLock { $0.takeWaiter(whatever: true) }?.resume()
        }
        try Task.checkCancellation()
    }

    var latencies: [UInt64] { state.withLock { $0.latencies } }
}
