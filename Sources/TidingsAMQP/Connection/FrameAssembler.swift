/// Puts the frames of one channel together into messages: method, header, body.
struct FrameAssembler {
    /// What the message is of.
    enum Origin: Hashable {
        case delivery(tag: UInt64, isRedelivered: Bool, AMQPAddress)
        case returned(code: UInt16, text: String, AMQPAddress)
    }

    private enum State {
        case idle
        case waitingForHeader(Origin)
        case waitingForBody(Origin, AMQPProperties, size: Int)
    }

    private var state = State.idle
    private var body: [UInt8] = []

    /// A method came that a message follows.
    mutating func begin(_ origin: Origin) throws(AMQPError) {
        guard case .idle = state else { throw Self.violation("a message within a message") }
        state = .waitingForHeader(origin)
    }

    /// The header came. Gives the message where it has no body.
    mutating func header(
        bodySize: UInt64, _ properties: AMQPProperties, maximum: Int
    ) throws(AMQPError) -> (Origin, AMQPMessage)? {
        guard case .waitingForHeader(let origin) = state else { throw Self.violation("a header without a message") }
        guard bodySize <= UInt64(maximum) else {
            throw AMQPError(
                .protocolViolation,
                "a message of \(bodySize) bytes, and at most \(maximum) are taken (maximumMessageSize)")
        }
        guard bodySize > 0 else {
            state = .idle
            return (origin, AMQPMessage([], properties: properties))
        }
        body.reserveCapacity(Int(bodySize))
        state = .waitingForBody(origin, properties, size: Int(bodySize))
        return nil
    }

    /// A piece of the body came. Gives the message where it was the last.
    mutating func body(_ piece: UnsafeRawBufferPointer) throws(AMQPError) -> (Origin, AMQPMessage)? {
        guard case .waitingForBody(let origin, let properties, let size) = state else {
            throw Self.violation("a body without a header")
        }
        unsafe body.append(contentsOf: piece)
        guard body.count <= size else { throw Self.violation("a body longer than its header says") }
        guard body.count == size else { return nil }
        state = .idle
        defer { body = [] }
        return (origin, AMQPMessage(body, properties: properties))
    }

    private static func violation(_ what: String) -> AMQPError {
        AMQPError(.protocolViolation, "the broker sent \(what)")
    }
}
