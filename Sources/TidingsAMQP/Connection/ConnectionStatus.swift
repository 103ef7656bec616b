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
        let observers = box.withLock { box in box.state == .idle ? box.set(.connecting) : nil }
        guard let observers else { return false }
        tell(observers, .connecting)
        return true
    }

    /// Ends what has never begun. False where it has.
    func closeIdle() -> Bool {
        let observers = box.withLock { box in box.state == .idle ? box.set(.closed(nil)) : nil }
        guard let observers else { return false }
        tell(observers, .closed(nil))
        return true
    }

    /// For one task: so states are told in their order.
    func set(_ state: AMQPConnectionState) { tell(box.withLock { $0.set(state) }, state) }

    /// Not within the lock: both resume a task, for which the runtime takes a lock of the task's. A task that is cancelled
    /// meanwhile removes its observer while that one is held.
    private func tell(_ observers: [AsyncStream<AMQPConnectionState>.Continuation], _ state: AMQPConnectionState) {
        for observer in observers { observer.yield(state) }
        guard case .closed = state else { return }
        for observer in observers { observer.finish() }
    }

    func opened() { box.withLock { $0.epoch += 1 } }

    /// The state now and every later one. Whoever reads slowly misses older ones, never the newest.
    func states() -> AsyncStream<AMQPConnectionState> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: AMQPConnectionState.self, bufferingPolicy: .bufferingNewest(64))
        let (id, isClosed) = box.withLock { box in
            box.nextObserver += 1
            // Nobody waits for it yet.
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
    /// Gives the observers that are to be told.
    fileprivate mutating func set(_ new: AMQPConnectionState) -> [AsyncStream<AMQPConnectionState>.Continuation] {
        state = new
        defer { if case .closed = new { observers = [:] } }
        return Array(observers.values)
    }
}
