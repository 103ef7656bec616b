/// Puts the frames of one channel together into messages: method, header, body.
struct FrameAssembler {
    /// What the message is of.
    enum Origin: Hashable {
        case delivery(tag: UInt64, isRedelivered: Bool, AMQPAddress)
        case returned(code: UInt16, text: String, AMQPAddress)
    }

    private enum State {
        case idle
        case waitingForHeader
        case waitingForBody(size: Int)
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
    mutating func header(
        bodySize: UInt64, _ properties: consuming AMQPProperties, maximum: Int
    ) throws(AMQPError) -> (Origin, AMQPMessage)? {
        guard case .waitingForHeader = state else { throw Self.violation("a header without a message") }
        guard bodySize <= UInt64(maximum) else {
            throw AMQPError(
                .protocolViolation,
                "a message of \(bodySize) bytes, and at most \(maximum) are taken (maximumMessageSize)")
        }
        self.properties = properties
        guard bodySize > 0 else { return complete() }
        body.reserveCapacity(Int(bodySize))
        state = .waitingForBody(size: Int(bodySize))
        return nil
    }

    /// A piece of the body came. Gives the message where it was the last.
    mutating func body(_ piece: UnsafeRawBufferPointer) throws(AMQPError) -> (Origin, AMQPMessage)? {
        guard case .waitingForBody(let size) = state else { throw Self.violation("a body without a header") }
        unsafe body.append(contentsOf: piece)
        guard body.count <= size else { throw Self.violation("a body longer than its header says") }
        return body.count == size ? complete() : nil
    }

    private mutating func complete() -> (Origin, AMQPMessage)? {
        state = .idle
        defer { body = [] }
        guard let origin = origin.take(), let properties = properties.take() else { return nil }
        return (origin, AMQPMessage(body, properties: properties))
    }

    private static func violation(_ what: String) -> AMQPError {
        AMQPError(.protocolViolation, "the broker sent \(what)")
    }
}
