/// Puts the frames of one channel together into messages: method, header, body.
struct FrameAssembler {
    /// What the message is of.
    enum Origin: Hashable {
        case delivery(tag: UInt64, isRedelivered: Bool, AMQPAddress)
        case returned(code: UInt16, text: String, AMQPAddress)
    }

    /// What has come: a message, or what is left of one whose body was too large.
    struct Content: Hashable {
        var origin: Origin
        /// Without its body, where that was skipped.
        var message: AMQPMessage
        /// How large the body was, where it was skipped.
        var skippedSize: UInt64?
    }

    private enum State {
        case idle
        case waitingForHeader
        case waitingForBody(size: Int)
        case skippingBody(size: UInt64, left: UInt64)
    }

    private var state = State.idle
    /// What has come of the message; moved out of here, not copied, when it is complete.
    private var origin: Origin?
    private var properties: AMQPProperties?
    private var body: [UInt8] = []

    /// A method came that a message follows.
    mutating func begin(_ origin: consuming Origin) throws(AMQPError) {
        guard case .idle = state else { throw Self.violation("a message within a message") }
        self.origin = origin
        state = .waitingForHeader
    }

    /// The header came. Gives the message where it has no body.
    ///
    /// A body over the maximum is skipped: none of it is kept, and none of what it claims to need is reserved.
    mutating func header(
        bodySize: UInt64, _ properties: consuming AMQPProperties, maximum: Int
    ) throws(AMQPError) -> Content? {
        guard case .waitingForHeader = state else { throw Self.violation("a header without a message") }
        self.properties = properties
        guard bodySize > 0 else { return complete() }
        guard bodySize <= UInt64(clamping: maximum) else {
            state = .skippingBody(size: bodySize, left: bodySize)
            return nil
        }
        body.reserveCapacity(Int(bodySize))
        state = .waitingForBody(size: Int(bodySize))
        return nil
    }

    /// A piece of the body came. Gives the message where it was the last.
    mutating func body(_ piece: UnsafeRawBufferPointer) throws(AMQPError) -> Content? {
        switch state {
        case .waitingForBody(let size):
            unsafe body.append(contentsOf: piece)
            guard body.count <= size else { throw Self.violation("a body longer than its header says") }
            return body.count == size ? complete() : nil
        case .skippingBody(let size, let left):
            let count = UInt64(piece.count)
            guard count <= left else { throw Self.violation("a body longer than its header says") }
            state = .skippingBody(size: size, left: left - count)
            return count == left ? complete(skippedSize: size) : nil
        case .idle, .waitingForHeader: throw Self.violation("a body without a header")
        }
    }

    private mutating func complete(skippedSize: UInt64? = nil) -> Content? {
        state = .idle
        defer { body = [] }
        guard let origin = origin.take(), let properties = properties.take() else { return nil }
        return Content(origin: origin, message: AMQPMessage(body, properties: properties), skippedSize: skippedSize)
    }

    private static func violation(_ what: String) -> AMQPError {
        AMQPError(.protocolViolation, "the broker sent \(what)")
    }
}
