import Synchronization
import TidingsSQLite

/// The window of a round trip by the library: which messages lack their confirm or their delivery.
final class RoundTripWindow: Sendable {
    private struct State {
        /// When each message was sent, by its number.
        var sent: [UInt64] = [0]
        var confirmedCount = 0
        var latencies: [UInt64] = []
        var waiter: CheckedContinuation<Void, Never>?
        var hasEnded = false
    }

    /// How many messages are sent together.
    let step: Int
    private let run: BrokerRun
    private let state = Mutex(State())

    init(_ run: BrokerRun) {
        self.run = run
        step = max(1, run.window / 8)
        state.withLock { state in
            state.sent.reserveCapacity(run.count + 1)
            state.latencies.reserveCapacity(run.count)
        }
    }

    /// From sending to the delivery, of the messages that were delivered.
    var latencies: [UInt64] { state.withLock { $0.latencies } }

    /// Waits for room for a step. False where all messages are sent, or the end has come.
    func room() async -> Bool {
        let mustWait = state.withLock { state -> Bool? in
            guard state.sent.count <= run.count, !state.hasEnded else { return nil }
            return !hasRoom(state)
        }
        guard let mustWait else { return false }
        guard mustWait else { return true }
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                if hasRoom(state) { return true }
                state.waiter = continuation
                return false
            }
            if isFree { continuation.resume() }
        }
        return state.withLock { !$0.hasEnded }
    }

    /// Nothing is received any more: whoever waits for room waits no longer.
    func end() { advance { $0.hasEnded = true } }

    func sent(_ count: Int) {
        let now = MonotonicClock.nanoseconds
        state.withLock { $0.sent += repeatElement(now, count: count) }
    }

    func confirmed(_ count: Int) { advance { $0.confirmedCount += count } }

    /// A message came. True where it was the last.
    func delivered(_ number: Int) -> Bool {
        let now = MonotonicClock.nanoseconds
        return advance { state in
            state.latencies.append(now - state.sent[number])
            return state.latencies.count == run.count
        }
    }

    private func advance<Result: Sendable>(_ body: (inout sending State) -> Result) -> Result {
        let (result, waiter) = state.withLock { state in
            let result = body(&state)
            guard hasRoom(state) else { return (result, nil as CheckedContinuation<Void, Never>?) }
            defer { state.waiter = nil }
            return (result, state.waiter)
        }
        waiter?.resume()
        return result
    }

    private func hasRoom(_ state: State) -> Bool {
        if state.hasEnded { return true }
        let pending = state.sent.count - 1 - min(state.confirmedCount, state.latencies.count)
        return pending + step <= run.window
    }
}
