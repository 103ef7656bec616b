/// Which deliveries of one channel are settled, and what the broker is to be told: without a socket.
///
/// Acks that follow each other from the oldest unsettled delivery on go out as one.
/// [Acknowledging](https://www.rabbitmq.com/docs/confirms#acknowledgement-modes)
struct SettlementStateMachine {
    /// What to tell the broker.
    enum Action: Hashable {
        /// Ack one delivery, or all unsettled ones up to it.
        case ack(tag: UInt64, isMultiple: Bool)
        /// Reject one delivery.
        case reject(tag: UInt64, requeue: Bool)
    }

    private enum State: Hashable {
        case delivered
        case acked
        case rejected(requeue: Bool)
        case sent
    }

    /// The deliveries from the oldest unsettled one on.
    private var states = Deque<State>()
    /// The tag of the first of them.
    private var firstTag: UInt64 = 1
    /// What was settled since the broker was told last.
    private var fresh: [UInt64] = []

    /// How many settlements the broker has not been told of.
    var freshCount: Int { fresh.count }

    /// A delivery came. Throws `protocolViolation` where its tag is not the next one.
    mutating func delivered(tag: UInt64) throws(AMQPError) {
        guard tag == firstTag + UInt64(states.count) else {
            throw AMQPError(.protocolViolation, "the broker's delivery tags are not in order: \(tag)")
        }
        states.append(.delivered)
    }

    /// Acks a delivery. False where it is settled already, or never came.
    mutating func ack(tag: UInt64) -> Bool { settle(tag, .acked) }

    /// Rejects a delivery. False where it is settled already, or never came.
    mutating func reject(tag: UInt64, requeue: Bool) -> Bool { settle(tag, .rejected(requeue: requeue)) }

    /// What the broker is to be told now.
    mutating func takeActions() -> [Action] {
        guard !fresh.isEmpty else { return [] }
        var actions: [Action] = []
        // Rejections first: an ack of many would take them with it.
        for tag in fresh {
            guard case .rejected(let requeue) = states[index(tag)] else { continue }
            actions.append(.reject(tag: tag, requeue: requeue))
            states[index(tag)] = .sent
        }
        if let action = takePrefix() { actions.append(action) }
        for tag in fresh where tag >= firstTag && states[index(tag)] == .acked {
            actions.append(.ack(tag: tag, isMultiple: false))
            states[index(tag)] = .sent
        }
        fresh.removeAll(keepingCapacity: true)
        return actions
    }

    /// Takes all settled deliveries from the front; an ack for the last acked one among them.
    private mutating func takePrefix() -> Action? {
        var last: UInt64?
        var count = 0
        while let state = states.first, state == .acked || state == .sent {
            if state == .acked {
                last = firstTag
                count += 1
            }
            _ = states.removeFirst()
            firstTag += 1
        }
        return last.map { .ack(tag: $0, isMultiple: count > 1) }
    }

    private mutating func settle(_ tag: UInt64, _ state: State) -> Bool {
        guard tag >= firstTag, tag < firstTag + UInt64(states.count), states[index(tag)] == .delivered else {
            return false
        }
        states[index(tag)] = state
        fresh.append(tag)
        return true
    }

    private func index(_ tag: UInt64) -> Int { Int(tag - firstTag) }
}
