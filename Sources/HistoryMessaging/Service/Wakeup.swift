internal import TidingsAMQP

/// Wakes one task that waits for something to do. Several signals before it looks are one.
final class Wakeup: Sendable {
    private struct State {
        var isSignalled = false
        var waiter: (id: Int, continuation: CheckedContinuation<Void, Never>)?
        var lastID = 0
    }

    private let state = Locked(State())

    /// Wakes the task, now or when it waits next.
    func signal() { wake(nil) }

    /// Waits for a signal, until a time at the most, or until the task is cancelled. For one task.
    func wait(until deadline: ContinuousClock.Instant) async {
        guard !takeSignal(), deadline > .now, !Task.isCancelled else {
            // An actor that looks again and again must not keep those away who would change what it sees.
            return await Task.yield()
        }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.wait() }
            group.addTask { try? await Task.sleep(until: deadline, clock: .continuous) }
            await group.next()
            group.cancelAll()
        }
    }

    private func takeSignal() -> Bool {
        state.withLock { state in
            defer { state.isSignalled = false }
            return state.isSignalled
        }
    }

    private func wait() async {
        let id = state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isReady = state.withLock { state in
                    let isReady = state.isSignalled || Task.isCancelled
                    state.isSignalled = false
                    if !isReady { state.waiter = (id, continuation) }
                    return isReady
                }
                if isReady { continuation.resume() }
            }
        } onCancel: {
            wake(id)
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
}
