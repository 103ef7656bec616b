internal import TidingsAMQP

/// Wakes one task that waits for something to do. Several signals before it looks are one.
final class Wakeup: Sendable {
    private struct State {
        var isSignalled = false
        var waiter: Waiter?
        var lastID = 0
        /// Lasts from wait to wait: most are over long before their time.
        var timer: (id: Int, deadline: ContinuousClock.Instant, task: Task<Void, Never>)?
    }

    private struct Waiter {
        let id: Int
        let deadline: ContinuousClock.Instant?
        let continuation: CheckedContinuation<Void, Never>
    }

    private let state = Locked(State())

    deinit { state.withLock { $0.timer }?.task.cancel() }

    /// Wakes the task, now or when it waits next.
    func signal() { wake(nil) }

    /// Waits for a signal, until a time at the most, or until the task is cancelled. For one task.
    func wait(until deadline: ContinuousClock.Instant? = nil) async {
        guard !takeSignal(), deadline.map({ $0 > .now }) ?? true, !Task.isCancelled else {
            // An actor that looks again and again must not keep those away who would change what it sees.
            return await Task.yield()
        }
        let id = state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isReady = state.withLock { state in
                    let isReady = state.isSignalled || Task.isCancelled
                    state.isSignalled = false
                    if !isReady { state.waiter = Waiter(id: id, deadline: deadline, continuation: continuation) }
                    if !isReady, let deadline { setTimer(deadline, &state) }
                    return isReady
                }
                if isReady { continuation.resume() }
            }
        } onCancel: {
            wake(id)
        }
    }

    private func takeSignal() -> Bool {
        state.withLock { state in
            defer { state.isSignalled = false }
            return state.isSignalled
        }
    }

    /// Wakes the task: for a signal, or one that is cancelled, by its number.
    private func wake(_ id: Int?) {
        let continuation = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard let waiter = state.waiter, id == nil || waiter.id == id else {
                if id == nil { state.isSignalled = true }
                return nil
            }
            state.waiter = nil
            return waiter.continuation
        }
        continuation?.resume()
    }

    // MARK: Time

    /// Sees to it that somebody looks when the time has come.
    private func setTimer(_ deadline: ContinuousClock.Instant, _ state: inout State) {
        if let timer = state.timer {
            guard deadline < timer.deadline else { return }
            timer.task.cancel()
        }
        state.lastID += 1
        let id = state.lastID
        let task = Task { [weak self] in
            try? await Task.sleep(until: deadline, clock: .continuous)
            self?.timeHasCome(id)
        }
        state.timer = (id, deadline, task)
    }

    private func timeHasCome(_ id: Int) {
        let continuation = state.withLock { state -> CheckedContinuation<Void, Never>? in
            // Another one may have taken its place.
            guard state.timer?.id == id else { return nil }
            state.timer = nil
            guard let waiter = state.waiter, let deadline = waiter.deadline else { return nil }
            guard deadline <= .now else {
                setTimer(deadline, &state)
                return nil
            }
            state.waiter = nil
            return waiter.continuation
        }
        continuation?.resume()
    }
}
