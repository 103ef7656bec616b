/// Hands a connection over from the thread that opens it to whoever waits for it; or to nobody, where that one has given up.
///
/// By a lock: the thread sanitizer does not see that resuming a task orders what was done before.
final class ConnectionHandOver: Sendable {
    /// Unchecked: it goes from one thread, which has it no more, to one other.
    private struct Parcel: @unchecked Sendable {
        let result: Result<ConnectionHandle, AMQPError>
    }

    private struct State {
        var parcel: Parcel?
        var waiter: CheckedContinuation<Void, Never>?
        var isOver = false
    }

    private let state = Locked(State())

    /// Sets who waits. To be called once, before anything else.
    func begin(_ waiter: CheckedContinuation<Void, Never>) { state.withLock { $0.waiter = waiter } }

    /// The thread is done. A connection that nobody waits for any more is closed.
    func finish(_ result: sending Result<ConnectionHandle, AMQPError>) { end(result) }

    /// Lets go whoever waits: opening a socket, or looking up a name, cannot be interrupted.
    func abandon() { end(.failure(AMQPError(.closed, "the connection was closed while it was being made"))) }

    /// What was handed over, once.
    func take() -> sending Result<ConnectionHandle, AMQPError> {
        let parcel = state.withLock { state in
            let parcel = state.parcel
            state.parcel = nil
            return parcel
        }
        return parcel?.result ?? .failure(AMQPError(.resources, "the connection was handed over to nobody"))
    }

    private func end(_ result: sending Result<ConnectionHandle, AMQPError>) {
        let parcel = Parcel(result: result)
        let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard !state.isOver else { return nil }
            state.isOver = true
            state.parcel = parcel
            return state.waiter.take()
        }
        waiter?.resume()
    }
}
