internal import TidingsAMQP

/// Whether a service runs, and whether it has been told to stop.
final class ServiceLife: Sendable {
    private struct State {
        var isRunning = false
        var isStopping = false
        var waiting: [CheckedContinuation<Void, Never>] = []
        /// Those who sleep until it is told to stop.
        var sleepers: [ObjectIdentifier: Wakeup] = [:]
    }

    private let name: String
    private let state = Locked(State())
    /// Wakes the work, also for its end.
    let wakeup = Wakeup()

    init(_ name: String) { self.name = name }

    /// True from ``stop()`` on, until the end.
    var isStopping: Bool { state.withLock { $0.isStopping } }
    /// True while it runs.
    var isRunning: Bool { state.withLock { $0.isRunning } }

    /// Begins. Throws `alreadyRunning`.
    func begin() throws(MessagingError) {
        let isFree = state.withLock { state in
            defer { state.isRunning = true }
            return !state.isRunning
        }
        guard isFree else { throw MessagingError(.alreadyRunning, "the \(name) runs already: stop it first") }
    }

    /// Has ended: whoever has stopped it goes on.
    func end() {
        let waiting = state.withLock { state in
            defer { state = State() }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Tells it to stop, and waits until it has ended.
    func stop() async {
        await withCheckedContinuation { continuation in
            let sleepers: [Wakeup]? = state.withLock { state in
                guard state.isRunning else { return nil }
                state.isStopping = true
                state.waiting.append(continuation)
                return Array(state.sleepers.values)
            }
            guard let sleepers else { return continuation.resume() }
            for sleeper in sleepers + [wakeup] { sleeper.signal() }
        }
    }

    /// Waits for a time, or until it is told to stop. Throws where it is cancelled.
    func pause(for duration: Duration) async throws {
        let sleeper = Wakeup()
        state.withLock { state in
            state.sleepers[ObjectIdentifier(sleeper)] = sleeper
            if state.isStopping { sleeper.signal() }
        }
        await sleeper.wait(until: .now + duration)
        state.withLock { $0.sleepers[ObjectIdentifier(sleeper)] = nil }
        try Task.checkCancellation()
    }

    /// Waits until it is told to stop. Throws where it is cancelled.
    func waitForStop() async throws {
        while !isStopping {
            try Task.checkCancellation()
            await wakeup.wait()
        }
    }
}
