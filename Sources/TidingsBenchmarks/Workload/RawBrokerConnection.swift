import CTidingsRabbitMQ
import Glibc

/// The floor: a connection with one channel by librabbitmq's C functions, as a program in C would use them.
///
/// For one thread at a time.
final class RawBrokerConnection {
    /// Owned; destroyed with the object.
    let state: amqp_connection_state_t
    static let channel: amqp_channel_t = 1
    private static let frameSize: Int32 = 131_072
    private static let heartbeat: Int32 = 10
    private var isOpen = false

    init(_ endpoint: BrokerEndpoint) throws {
        guard let state = amqp_new_connection() else { throw BenchmarkError("no memory for a connection") }
        self.state = state
        // The connection owns its socket.
        guard let socket = amqp_tcp_socket_new(state) else { throw BenchmarkError("no memory for a socket") }
        var timeout = timeval(tv_sec: 10, tv_usec: 0)
        let code = amqp_socket_open_noblock(socket, endpoint.host, Int32(endpoint.port), &timeout)
        guard code == AMQP_STATUS_OK.rawValue else { throw Self.error(code, "connecting to \(endpoint.host)") }
        amqp_set_rpc_timeout(state, &timeout)
        var properties = amqp_empty_table
        let login = tidings_amqp_login_plain(
            state, endpoint.virtualHost, 0, Self.frameSize, Self.heartbeat, &properties, endpoint.user,
            endpoint.password)
        try Self.check(login, "logging in")
        isOpen = true
        amqp_channel_open(state, Self.channel)
        try checkReply("opening a channel")
    }

    deinit {
        if isOpen { amqp_connection_close(state, AMQP_REPLY_SUCCESS) }
        amqp_destroy_connection(state)
    }

    /// Checks how the last synchronous call went.
    func checkReply(_ action: String) throws { try Self.check(amqp_get_rpc_reply(state), action) }

    /// Waits for the next frame, no longer than `seconds`; false where none came. Sends heartbeats that are due.
    @inline(__always)
    func wait(_ frame: inout amqp_frame_t, seconds: Int = 0) throws -> Bool {
        var timeout = timeval(tv_sec: seconds, tv_usec: 0)
        let code = amqp_simple_wait_frame_noblock(state, &frame, &timeout)
        if code == AMQP_STATUS_OK.rawValue { return true }
        if code == AMQP_STATUS_TIMEOUT.rawValue { return false }
        throw Self.error(code, "waiting for a frame")
    }

    /// Whether there are bytes that the socket will not tell of any more.
    @inline(__always)
    var hasInput: Bool { amqp_data_in_buffer(state) != 0 || amqp_frames_enqueued(state) != 0 }

    /// Frees what was decoded, unless half a frame is there.
    @inline(__always)
    func releaseBuffers() { amqp_maybe_release_buffers(state) }

    @inline(__always)
    static func check(_ code: Int32, _ action: StaticString) throws {
        guard code == AMQP_STATUS_OK.rawValue else { throw error(code, "\(action)") }
    }

    /// Why the broker sent a method that no measurement expects.
    static func unexpected(_ method: amqp_method_t) -> BenchmarkError {
        switch method.id {
        case AMQP_CHANNEL_CLOSE_METHOD:
            let close = method.decoded.assumingMemoryBound(to: amqp_channel_close_t.self).pointee
            return BenchmarkError("the broker closed the channel: \(close.reply_code) \(text(close.reply_text))")
        case AMQP_CONNECTION_CLOSE_METHOD:
            let close = method.decoded.assumingMemoryBound(to: amqp_connection_close_t.self).pointee
            return BenchmarkError("the broker closed the connection: \(close.reply_code) \(text(close.reply_text))")
        case AMQP_BASIC_NACK_METHOD: return BenchmarkError("the broker refused a message")
        case AMQP_BASIC_RETURN_METHOD: return BenchmarkError("the broker returned a message")
        case AMQP_BASIC_CANCEL_METHOD: return BenchmarkError("the broker ended the consumer")
        default: return BenchmarkError("unexpected method \(method.id)")
        }
    }

    private static func check(_ reply: amqp_rpc_reply_t, _ action: String) throws {
        switch reply.reply_type {
        case AMQP_RESPONSE_NORMAL: return
        case AMQP_RESPONSE_LIBRARY_EXCEPTION: throw error(reply.library_error, action)
        case AMQP_RESPONSE_SERVER_EXCEPTION: throw BenchmarkError("\(action): \(unexpected(reply.reply))")
        default: throw BenchmarkError("\(action): no reply")
        }
    }

    private static func error(_ code: Int32, _ action: String) -> BenchmarkError {
        BenchmarkError("\(action): \(String(cString: amqp_error_string2(code)))")
    }

    private static func text(_ bytes: amqp_bytes_t) -> String {
        String(decoding: UnsafeRawBufferPointer(start: bytes.bytes, count: bytes.len), as: UTF8.self)
    }
}

/// Text for C functions that borrow it: it stays where it is as long as the object is there.
final class RawText {
    let bytes: amqp_bytes_t

    init(_ text: String) {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: text.utf8.count, alignment: 1)
        copy.copyBytes(from: text.utf8)
        bytes = amqp_bytes_t(len: copy.count, bytes: copy.baseAddress)
    }

    deinit { bytes.bytes?.deallocate() }
}
