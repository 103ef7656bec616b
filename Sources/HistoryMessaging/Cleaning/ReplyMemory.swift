/// The replies to the latest commands: one that comes again gets the same reply. Bounded: the oldest are forgotten.
struct ReplyMemory: Sendable {
    /// A command's identity: whoever else uses the same message id gets no reply of somebody else's.
    struct Key: Sendable, Hashable {
        let user: String
        let messageID: String
    }

    private let limit: Int
    private var replies: [Key: ControlReply] = [:]
    private var order: [Key] = []
    /// Where the oldest stands in `order`, once that is full.
    private var oldest = 0

    init(limit: Int = 1000) { self.limit = limit }

    /// The reply to a command, where it is known.
    func reply(to key: Key) -> ControlReply? { replies[key] }

    /// Keeps a reply.
    mutating func keep(_ reply: ControlReply, to key: Key) {
        guard replies.updateValue(reply, forKey: key) == nil else { return }
        guard order.count == limit else { return order.append(key) }
        replies[order[oldest]] = nil
        order[oldest] = key
        oldest = (oldest + 1) % limit
    }
}
