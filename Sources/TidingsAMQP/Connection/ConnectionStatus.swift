internal import Synchronization

/// The state of a connection, for any thread to look at and to wait for.
final class ConnectionStatus: Sendable {
    fileprivate struct Box {
        var state = AMQPConnectionState.idle
        var observers: [Int: AsyncStream<AMQPConnectionState>.Continuation] = [:]
        var nextObserver = 0
        /// Counts connections that were opened.
        var epoch = 0
    }

    private let box = Mutex(Box())

    var state: AMQPConnectionState { box.withLock { $0.state } }

    var epoch: Int { box.withLock { $0.epoch } }

    /// Begins. False where it has begun before.
    func begin() -> Bool {
        box.withLock { box in
            guard box.state == .idle else { return false }
            box.set(.connecting)
            return true
        }
    }

    func set(_ state: AMQPConnectionState) { box.withLock { $0.set(state) } }

    func opened() { box.withLock { $0.epoch += 1 } }

    /// The state now and every later one. Whoever reads slowly misses older ones, never the newest.
    func states() -> AsyncStream<AMQPConnectionState> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: AMQPConnectionState.self, bufferingPolicy: .bufferingNewest(64))
        let id = box.withLock { box in
            box.nextObserver += 1
            continuation.yield(box.state)
            if case .closed = box.state { continuation.finish() } else { box.observers[box.nextObserver] = continuation }
            return box.nextObserver
        }
        continuation.onTermination = { [weak self] _ in self?.remove(id) }
        return stream
    }

    private func remove(_ id: Int) { _ = box.withLock { $0.observers.removeValue(forKey: id) } }
}

extension ConnectionStatus.Box {
    fileprivate mutating func set(_ new: AMQPConnectionState) {
        state = new
        for observer in observers.values { observer.yield(new) }
        guard case .closed = new else { return }
        for observer in observers.values { observer.finish() }
        observers = [:]
    }
}
