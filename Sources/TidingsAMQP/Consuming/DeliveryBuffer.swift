/// The deliveries that wait to be read, and the settlements that wait to be sent: between the connection's thread and
/// whoever consumes. Bounded by the prefetch limit.
final class DeliveryBuffer: Sendable {
    private struct Waiter {
        let id: UInt64
        let continuation: CheckedContinuation<AMQPDelivery?, any Error>
    }

    private struct State {
        var deliveries = Deque<AMQPDelivery>()
        var waiters: [Waiter] = []
        var nextWaiter: UInt64 = 0
        /// Those that are on their way to wait, and those of them that were cancelled.
        var coming: Set<UInt64> = []
        var cancelled: Set<UInt64> = []
        var ending: Result<Void, AMQPError>?
        /// Counts channels: what belongs to an earlier one is stale.
        var generation = 0
        var isLive = false
        var settlements = SettlementStateMachine()
        var oldestSettlement: ContinuousClock.Instant?
        var counts = ConsumeCounts()

        /// Who waits longest, with what came first.
        mutating func takeHandover() -> (Waiter, AMQPDelivery)? {
            guard !waiters.isEmpty, let delivery = deliveries.removeFirst() else { return nil }
            return (waiters.removeFirst(), delivery)
        }
    }

    /// How long a settlement may wait for others to go with.
    private static let delay: Duration = .milliseconds(5)

    private let state = Locked(State())
    private let mailbox: Mailbox
    /// How many settlements go out, and how many deliveries are handed over, without waiting for more.
    private let enough: Int

    init(prefetch: UInt16, mailbox: Mailbox) {
        self.mailbox = mailbox
        enough = min(128, max(1, Int(prefetch) / 4))
    }

    var counts: ConsumeCounts { state.withLock { $0.counts } }

    // MARK: On the connection's thread

    /// Begins a channel. Gives the number that its deliveries carry.
    func begin() {
        state.withLock { state in
            guard state.ending == nil else { return }
            state.generation += 1
            state.isLive = true
            if state.generation > 1 { state.counts.restarts += 1 }
        }
    }

    /// The channel is gone: what was not read is dropped, what comes to be settled is stale.
    func lose() {
        state.withLock { state in
            state.isLive = false
            state.counts.dropped += state.deliveries.removeAll().count
            state.settlements = SettlementStateMachine()
            state.oldestSettlement = nil
        }
    }

    /// A delivery came. Whoever waits gets it when there are several, or by ``handOver()``: waking costs more than all
    /// else that is done for a delivery.
    func add(
        _ message: consuming AMQPMessage, tag: UInt64, isRedelivered: Bool, _ address: consuming AMQPAddress
    ) throws(AMQPError) {
        // Moved into the queue: a copy would count the references of all texts.
        var delivery: AMQPDelivery? = AMQPDelivery(
            message: message, address: address, isRedelivered: isRedelivered, tag: tag, source: self)
        let mustHandOver = try state.withLock { state throws(AMQPError) -> Bool in
            try state.settlements.delivered(tag: tag)
            state.counts.delivered += 1
            delivery?.generation = state.generation
            if let delivery = delivery.take() { state.deliveries.append(delivery) }
            return !state.waiters.isEmpty && state.deliveries.count >= enough
        }
        if mustHandOver { handOver() }
    }

    /// A delivery came whose body is over the limit and was skipped: nobody is given it, and the broker is told not to
    /// deliver it again, so that it gives back its place within the prefetch limit.
    func refuse(tag: UInt64) throws(AMQPError) {
        let isFirst = try state.withLock { state throws(AMQPError) -> Bool in
            try state.settlements.delivered(tag: tag)
            _ = state.settlements.reject(tag: tag, requeue: false)
            state.counts.oversized += 1
            guard state.oldestSettlement == nil else { return false }
            state.oldestSettlement = .now
            return true
        }
        // Read in the middle of writing, it would else wait until something more happens.
        if isFirst { mailbox.wake() }
    }

    /// Gives deliveries to those who wait. To be called whenever all that came was read.
    func handOver() {
        while let (waiter, delivery) = state.withLock({ $0.takeHandover() }) {
            waiter.continuation.resume(returning: delivery)
        }
    }

    /// What the broker is to be told now; and else until when it can wait.
    func takeActions(
        at now: ContinuousClock.Instant
    ) -> (actions: [SettlementStateMachine.Action], deadline: ContinuousClock.Instant?) {
        state.withLock { state in
            guard let oldest = state.oldestSettlement else { return ([], nil) }
            let isDue = state.deliveries.isEmpty || state.settlements.freshCount >= enough || now - oldest >= Self.delay
            guard isDue else { return ([], oldest + Self.delay) }
            state.oldestSettlement = nil
            return (state.settlements.takeActions(), nil)
        }
    }

    /// Nothing comes any more.
    func end(_ error: AMQPError?) {
        let waiters = state.withLock { state in
            if state.ending == nil { state.ending = error.map { .failure($0) } ?? .success(()) }
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters {
            if let error {
                waiter.continuation.resume(throwing: error)
            } else {
                waiter.continuation.resume(returning: nil)
            }
        }
    }

    // MARK: From any thread

    /// The next delivery; nil at the end, or where the task is cancelled.
    func next() async throws -> AMQPDelivery? {
        if !Task.isCancelled, let delivery = state.withLock({ $0.deliveries.removeFirst() }) { return delivery }
        let id = state.withLock { state in
            state.nextWaiter += 1
            state.coming.insert(state.nextWaiter)
            return state.nextWaiter
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { wait(id, $0) }
        } onCancel: {
            cancel(id)
        }
    }

    /// Settles a delivery, where it belongs to the present channel.
    func settle(_ generation: Int, _ settle: (inout SettlementStateMachine) -> Bool) -> Bool {
        let (isSettled, mustWake) = state.withLock { state in
            guard state.isLive, generation == state.generation else {
                state.counts.stale += 1
                return (false, false)
            }
            guard settle(&state.settlements) else {
                state.counts.repeated += 1
                return (false, false)
            }
            state.counts.settled += 1
            let isFirst = state.oldestSettlement == nil
            if isFirst { state.oldestSettlement = .now }
            return (true, isFirst || state.settlements.freshCount == enough || state.deliveries.isEmpty)
        }
        if mustWake { mailbox.wake() }
        return isSettled
    }

    private func wait(_ id: UInt64, _ continuation: CheckedContinuation<AMQPDelivery?, any Error>) {
        let (result, mustWake) = state.withLock { state -> (Result<AMQPDelivery?, AMQPError>?, Bool) in
            state.coming.remove(id)
            if state.cancelled.remove(id) != nil { return (.success(nil), false) }
            if let delivery = state.deliveries.removeFirst() { return (.success(delivery), false) }
            switch state.ending {
            case .success: return (.success(nil), false)
            case .failure(let error): return (.failure(error), false)
            case nil:
                state.waiters.append(Waiter(id: id, continuation: continuation))
                // Whoever waits for more will settle no more: what is settled goes out now.
                return (nil, state.oldestSettlement != nil)
            }
        }
        if mustWake { mailbox.wake() }
        switch result {
        case .success(let delivery): continuation.resume(returning: delivery)
        case .failure(let error): continuation.resume(throwing: error)
        case nil: break
        }
    }

    private func cancel(_ id: UInt64) {
        let waiter = state.withLock { state -> Waiter? in
            guard let index = state.waiters.firstIndex(where: { $0.id == id }) else {
                if state.coming.contains(id) { state.cancelled.insert(id) }
                return nil
            }
            return state.waiters.remove(at: index)
        }
        waiter?.continuation.resume(returning: nil)
    }
}
