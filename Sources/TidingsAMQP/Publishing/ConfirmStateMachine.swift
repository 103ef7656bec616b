/// Which published messages the broker has answered, and what: confirms of one channel, without a socket.
///
/// Tags count from 1 on each channel, in the order of publishing. The broker may answer out of order, and many at once.
/// A message that no queue wanted comes back first, and is acked then. [Confirms](https://www.rabbitmq.com/docs/confirms)
struct ConfirmStateMachine<Slot> {
    private struct Entry {
        /// Nil where it is answered: an older one that is not must not hold on to the messages behind it.
        var slot: Slot?
        let size: Int
        let writtenAt: ContinuousClock.Instant
        var returned: (code: UInt16, text: String)?

        var isAnswered: Bool { slot == nil }
    }

    /// The messages from the first unanswered one on.
    private var entries = Deque<Entry>()
    /// The tag of the first of them.
    private var firstTag: UInt64 = 1
    /// Where the next return is looked for: they come in the order of publishing.
    private var nextReturn: UInt64 = 1

    /// How many messages are unanswered.
    private(set) var count = 0
    /// How many bytes of body they have.
    private(set) var bytes = 0

    /// When the oldest unanswered message was written.
    var oldest: ContinuousClock.Instant? { entries.first?.writtenAt }

    /// A message was written. Gives its tag.
    @discardableResult
    mutating func written(_ slot: Slot, size: Int, at instant: ContinuousClock.Instant) -> UInt64 {
        entries.append(Entry(slot: slot, size: size, writtenAt: instant))
        count += 1
        bytes += size
        return firstTag + UInt64(entries.count) - 1
    }

    /// The broker sent a message back. False where none that is unanswered matches it.
    mutating func returned(code: UInt16, text: String, where matches: (Slot) -> Bool) -> Bool {
        var index = Int(max(nextReturn, firstTag) - firstTag)
        while index < entries.count {
            if let slot = entries[index].slot, matches(slot) {
                entries[index].returned = (code, text)
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
        while let entry = entries.first, entry.isAnswered {
            _ = entries.removeFirst()
            firstTag += 1
        }
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
        let entry = entries[index]
        guard let slot = entry.slot else { return }
        entries[index].slot = nil
        count -= 1
        bytes -= entry.size
        if isNack {
            resolve(slot, .nacked)
        } else if let returned = entry.returned {
            resolve(slot, .returned(code: returned.code, text: returned.text))
        } else {
            resolve(slot, .confirmed)
        }
    }
}
