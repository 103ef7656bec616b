/// Which published messages the broker has answered, and what: confirms of one channel, without a socket.
///
/// Tags count from 1 on each channel, in the order of publishing. The broker may answer out of order, and many at once.
/// A message that no queue wanted comes back first, and is acked then. [Confirms](https://www.rabbitmq.com/docs/confirms)
struct ConfirmStateMachine<Slot> {
    /// Kept small, and of a layout that the compiler knows: there is one for each message.
    private struct Entry {
        /// Nil where it is answered: an older one that is not must not hold on to the messages behind it.
        var slot: Slot?
        let size: Int
        var isReturned = false

        var isAnswered: Bool { slot == nil }
    }

    /// From a message on, all were written at this instant.
    private struct Writing {
        let firstTag: UInt64
        let instant: ContinuousClock.Instant
    }

    /// The messages from the first unanswered one on.
    private var entries = Deque<Entry>()
    /// The tag of the first of them.
    private var firstTag: UInt64 = 1
    /// The instants of writing, from that of the first entry on: few, where many messages are written at once.
    private var writings = Deque<Writing>()
    private var lastInstant: ContinuousClock.Instant?
    /// What came back and is not answered, by tag.
    private var returns: [UInt64: (code: UInt16, text: String)] = [:]
    /// Where the next return is looked for: they come in the order of publishing.
    private var nextReturn: UInt64 = 1

    /// How many messages are unanswered.
    private(set) var count = 0
    /// How many bytes of body they have.
    private(set) var bytes = 0

    /// When the oldest unanswered message was written.
    var oldest: ContinuousClock.Instant? { writings.first?.instant }

    /// A message was written. Gives its tag.
    @discardableResult
    mutating func written(_ slot: Slot, size: Int, at instant: ContinuousClock.Instant) -> UInt64 {
        entries.append(Entry(slot: slot, size: size))
        count += 1
        bytes += size
        let tag = firstTag + UInt64(entries.count) - 1
        if instant != lastInstant {
            writings.append(Writing(firstTag: tag, instant: instant))
            lastInstant = instant
        }
        return tag
    }

    /// The broker sent a message back. False where none that is unanswered matches it.
    mutating func returned(code: UInt16, text: String, where matches: (Slot) -> Bool) -> Bool {
        var index = Int(max(nextReturn, firstTag) - firstTag)
        while index < entries.count {
            if let slot = entries[index].slot, matches(slot) {
                entries[index].isReturned = true
                returns[firstTag + UInt64(index)] = (code, text)
                nextReturn = firstTag + UInt64(index) + 1
                return true
            }
            index += 1
        }
        return false
    }

    /// The broker answered a message, or all up to it. Tag 0 with `isMultiple` is all.
    ///
    /// Throws `protocolViolation` for a tag that was never given.
    mutating func answered(
        tag: UInt64, isMultiple: Bool, isNack: Bool, resolve: (Slot, PublishResult) -> Void
    ) throws(AMQPError) {
        let end = firstTag + UInt64(entries.count)
        guard tag < end, tag > 0 || isMultiple else {
            throw AMQPError(.protocolViolation, "the broker confirmed publication \(tag) of \(end - 1)")
        }
        let last = tag == 0 ? end - 1 : tag
        if last >= firstTag {
            let index = Int(last - firstTag)
            for each in (isMultiple ? 0 : index)...index { answer(each, isNack: isNack, resolve: resolve) }
        }
        removeAnswered()
    }

    /// The channel ended: nothing more will be answered. Starts anew, for the next channel.
    mutating func abandon(resolve: (Slot) -> Void) {
        for entry in entries.removeAll() { if let slot = entry.slot { resolve(slot) } }
        self = ConfirmStateMachine()
    }

    /// The first unanswered message that a condition names.
    func firstUnanswered(where condition: (Slot) -> Bool) -> Slot? {
        for index in 0..<entries.count {
            if let slot = entries[index].slot, condition(slot) { return slot }
        }
        return nil
    }

    private mutating func answer(_ index: Int, isNack: Bool, resolve: (Slot, PublishResult) -> Void) {
        guard let slot = entries[index].slot else { return }
        entries[index].slot = nil
        count -= 1
        bytes -= entries[index].size
        let returned = takeReturn(index)
        resolve(slot, isNack ? .nacked : returned ?? .confirmed)
    }

    /// What is known of a message that came back.
    private mutating func takeReturn(_ index: Int) -> PublishResult? {
        guard entries[index].isReturned else { return nil }
        return returns.removeValue(forKey: firstTag + UInt64(index)).map { .returned(code: $0.code, text: $0.text) }
    }

    /// Forgets what is answered, up to the first message that is not.
    private mutating func removeAnswered() {
        while !entries.isEmpty, entries[0].isAnswered {
            _ = entries.removeFirst()
            firstTag += 1
        }
        // An instant is kept as long as one of its messages.
        while !writings.isEmpty {
            guard entries.isEmpty || (writings.count > 1 && writings[1].firstTag <= firstTag) else { return }
            _ = writings.removeFirst()
        }
        lastInstant = nil
    }
}
