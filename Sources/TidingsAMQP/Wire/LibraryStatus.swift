internal import CTidingsRabbitMQ

/// A status code of the library.
struct LibraryStatus {
    let code: Int32

    init(_ code: Int32) { self.code = code }

    /// The library's words for it.
    var text: String { unsafe String(cString: amqp_error_string2(code)) }

    /// What a connection that was open reports.
    func error(_ action: String, hasBarked: Bool) -> AMQPError {
        if hasBarked {
            return AMQPError(
                .timedOut, "\(action) blocked past its bound: the broker, or the network, takes no more data")
        }
        switch code {
        case AMQP_STATUS_HEARTBEAT_TIMEOUT.rawValue:
            return AMQPError(.connectionLost, "no sign of life from the broker for two heartbeats")
        case AMQP_STATUS_TABLE_TOO_BIG.rawValue, AMQP_STATUS_INVALID_PARAMETER.rawValue:
            return AMQPError(.invalid, "\(action): \(text)")
        case AMQP_STATUS_NO_MEMORY.rawValue: return AMQPError(.resources, "\(action): no memory")
        case AMQP_STATUS_BAD_AMQP_DATA.rawValue, AMQP_STATUS_UNKNOWN_CLASS.rawValue,
            AMQP_STATUS_UNKNOWN_METHOD.rawValue:
            return AMQPError(.protocolViolation, "\(action): what the broker sent is not AMQP 0-9-1 (\(text))")
        default: return AMQPError(.connectionLost, "the connection to the broker ended while \(action): \(text)")
        }
    }
}
