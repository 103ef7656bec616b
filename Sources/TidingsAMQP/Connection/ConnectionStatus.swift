/// The state of a connection, for any thread to look at and to wait for.
final class ConnectionStatus: Sendable {
    fileprivate struct Box {
        var state = AMQPConnectionState.idle
        var observers: [Int: AsyncStream<AMQPConnectionState>.Continuation] = [:]
        var nextObserver = 0
        /// Counts connections that were opened.
        var epoch = 0
    }

    private let box = Locked(Box())

    var state: AMQPConnectionState { box.withLock { $0.state } }

    var epoch: Int { box.withLock { $0.epoch } }

    /// Begins. False where it has begun before.
    func begin() -> Bool {
        box.withLock { box in
            guard box.state == .idle else { return false }
            _ = box.set(.connecting)
            return true
        }
    }

    /// Ends what has never begun. False where it has.
    func closeIdle() -> Bool {
        let (isIdle, finished) = box.withLock { box in
            box.state == .idle ? (true, box.set(.closed(nil))) : (false, [])
        }
        for observer in finished { observer.finish() }
        return isIdle
    }

    func set(_ state: AMQPConnectionState) {
        let finished = box.withLock { $0.set(state) }
        // Not within the lock: the end of a stream removes its observer.
        for observer in finished { observer.finish() }
    }

    func opened() { box.withLock { $0.epoch += 1 } }

    /// The state now and every later one. Whoever reads slowly misses older ones, never the newest.
    func states() -> AsyncStream<AMQPConnectionState> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: AMQPConnectionState.self, bufferingPolicy: .bufferingNewest(64))
        let (id, isClosed) = box.withLock { box in
            box.nextObserver += 1
            continuation.yield(box.state)
            if case .closed = box.state { return (box.nextObserver, true) }
            box.observers[box.nextObserver] = continuation
            return (box.nextObserver, false)
        }
        if isClosed { continuation.finish() }
        continuation.onTermination = { [weak self] _ in self?.remove(id) }
        return stream
    }

    private func remove(_ id: Int) { _ = box.withLock { $0.observers.removeValue(forKey: id) } }
}

extension ConnectionStatus.Box {
    /// Gives the observers that have seen the last state.
    fileprivate mutating func set(_ new: AMQPConnectionState) -> [AsyncStream<AMQPConnectionState>.Continuation] {
        state = new
        for observer in observers.values { observer.yield(new) }
        guard case .closed = new else { return [] }
        defer { observers = [:] }
        return Array(observers.values)
    }
}
