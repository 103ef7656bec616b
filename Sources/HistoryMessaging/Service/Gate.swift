internal import TidingsAMQP

/// Open or closed; whoever waits goes on when it opens.
final class Gate: Sendable {
    private struct State {
        var isOpen: Bool
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state: Locked<State>

    init(isOpen: Bool = false) { state = Locked(State(isOpen: isOpen)) }

    /// Lets everybody through, from now on.
    func open() {
        let waiting = state.withLock { state in
            defer { state.waiting = [] }
            state.isOpen = true
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Lets nobody through any more.
    func close() { state.withLock { $0.isOpen = false } }

    /// Waits until it is open. A cancellation does not end the wait: whoever is to open it opens it at its own end.
    func wait() async {
        await withCheckedContinuation { continuation in
            let isOpen = state.withLock { state in
                if !state.isOpen { state.waiting.append(continuation) }
                return state.isOpen
            }
            if isOpen { continuation.resume() }
        }
    }
}
