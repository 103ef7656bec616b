internal import TidingsAMQP

/// Lets one task wait until somebody has something for it. Several calls while nobody waits are one.
final class Wakeups: Sendable {
    private struct State {
        var isSignalled = false
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let state = Locked(State())

    /// Ends the wait, or the next one.
    func signal() {
        let waiter = state.withLock { state in
            state.isSignalled = state.waiter == nil
            return state.waiter.take()
        }
        waiter?.resume()
    }

    /// Waits for a signal, a time, or a cancellation.
    func wait(until deadline: ContinuousClock.Instant?) async {
        if state.withLock({ $0.isSignalled.exchange(false) }) { return }
        guard let deadline else { return await wait() }
        guard deadline > .now else { return }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.wait() }
            group.addTask { try? await Task.sleep(until: deadline, clock: .continuous) }
            await group.next()
            group.cancelAll()
        }
    }

    private func wait() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let mustGoOn = state.withLock { state in
                    if Task.isCancelled || state.isSignalled.exchange(false) { return true }
                    state.waiter = continuation
                    return false
                }
                if mustGoOn { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.waiter.take() }?.resume()
        }
    }
}

extension Bool {
    /// Sets a value and gives the one before.
    fileprivate mutating func exchange(_ new: Bool) -> Bool {
        defer { self = new }
        return self
    }
}
