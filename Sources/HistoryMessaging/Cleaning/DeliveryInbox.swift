internal import TidingsAMQP

/// Collects what comes until somebody has time for all of it at once. Bounded by what its senders have unsettled.
final class DeliveryInbox<Element: Sendable>: Sendable {
    private let state = Locked<(elements: [Element], isFinished: Bool)>(([], false))
    private let wakeup = Wakeup()

    /// How much waits.
    var count: Int { state.withLock { $0.elements.count } }

    /// Puts something in.
    func add(_ element: Element) {
        state.withLock { $0.elements.append(element) }
        wakeup.signal()
    }

    /// Nothing comes any more: whoever takes gets what is left, and then nil.
    func finish() {
        state.withLock { $0.isFinished = true }
        wakeup.signal()
    }

    /// All that has come, once there is something; nil at the end, or where the task is cancelled. For one task.
    func take() async -> [Element]? {
        while !Task.isCancelled {
            let (elements, isFinished) = state.withLock { state in
                defer { state.elements = [] }
                return state
            }
            if !elements.isEmpty { return elements }
            if isFinished { return nil }
            await wakeup.wait()
        }
        return nil
    }
}
