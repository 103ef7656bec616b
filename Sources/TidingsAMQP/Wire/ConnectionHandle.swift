internal import CTidingsRabbitMQ
internal import Glibc

/// One connection of the C library, logged in: owns it, and closes the socket when it goes.
///
/// Not thread-safe, as the library is not: it stays on the connection's thread.
@safe final class ConnectionHandle {
    /// The socket.
    let descriptor: Int32
    /// The socket in the watchdog's care.
    let guarded: GuardedSocket
    /// The largest frame agreed on.
    let frameSize: Int
    /// The highest channel number agreed on.
    let channelLimit: UInt16
    /// The heartbeat agreed on; zero is none.
    let heartbeat: Duration

    private let state: amqp_connection_state_t
    private let arena = Arena()

    /// Takes over a connection that has logged in.
    @unsafe init(_ state: amqp_connection_state_t, guarded: GuardedSocket) {
        unsafe self.state = state
        self.guarded = guarded
        descriptor = unsafe amqp_get_sockfd(state)
        frameSize = Int(unsafe amqp_get_frame_max(state))
        let limit = unsafe amqp_get_channel_max(state)
        channelLimit = limit > 0 ? UInt16(clamping: limit) : .max
        heartbeat = .seconds(Int(unsafe amqp_get_heartbeat(state)))
    }

    deinit {
        guarded.end()
        unsafe amqp_destroy_connection(state)
    }

    /// True where a frame may be read without waiting for the socket.
    var hasBufferedFrames: Bool {
        unsafe amqp_frames_enqueued(state) != 0 || amqp_data_in_buffer(state) != 0
    }

    /// Sends a method.
    func send(_ request: Request, channel: UInt16) throws(AMQPError) {
        try check(unsafe request.send(state, channel: channel, arena: arena), request.name)
    }

    /// Writes a message. It has been checked against ``MessageLimits``.
    func publish(_ publication: borrowing AMQPPublication, channel: UInt16) throws(AMQPError) {
        arena.recycle()
        var properties = unsafe amqp_basic_properties_t(publication.message.properties, in: arena)
        let exchange = unsafe arena.bytes(publication.address.exchange)
        let key = unsafe arena.bytes(publication.address.routingKey)
        let isMandatory = publication.isMandatory
        let status = unsafe publication.message.body.withUnsafeBytes { body in
            // The library reads the body, and keeps no pointer to it.
            unsafe amqp_basic_publish(
                state, channel, exchange, key, isMandatory ? 1 : 0, 0, &properties,
                amqp_bytes_t(len: body.count, bytes: UnsafeMutableRawPointer(mutating: body.baseAddress)))
        }
        try check(status, "publishing")
        // The library leaves the last piece of such a body corked in the kernel: any further frame pushes it out.
        let size = publication.message.body.count
        if size > 0, size % (frameSize - 8) == 0 { try sendHeartbeat() }
    }

    private func sendHeartbeat() throws(AMQPError) {
        var frame = unsafe amqp_frame_t()
        unsafe frame.frame_type = UInt8(AMQP_FRAME_HEARTBEAT)
        try check(unsafe amqp_send_frame(state, &frame), "sending a heartbeat")
    }

    /// Reads the next frame where there is one, without waiting; sends a heartbeat where one is due.
    ///
    /// What the frame lends is good until the next call. Throws where the connection has failed.
    @unsafe func receive() throws(AMQPError) -> Incoming? {
        while true {
            var frame = unsafe amqp_frame_t()
            var now = timeval(tv_sec: 0, tv_usec: 0)
            let status = unsafe amqp_simple_wait_frame_noblock(state, &frame, &now)
            if status == AMQP_STATUS_TIMEOUT.rawValue { return nil }
            try check(status, "reading")
            let channel = unsafe frame.channel
            switch Int32(unsafe frame.frame_type) {
            case AMQP_FRAME_METHOD:
                return unsafe .method(channel: channel, IncomingMethod(frame.payload.method))
            case AMQP_FRAME_HEADER:
                let header = unsafe frame.payload.properties
                let properties = unsafe header.decoded.load(as: amqp_basic_properties_t.self)
                return unsafe .header(channel: channel, bodySize: header.body_size, AMQPProperties(properties))
            case AMQP_FRAME_BODY:
                let body = unsafe frame.payload.body_fragment
                return unsafe .body(channel: channel, UnsafeRawBufferPointer(start: body.bytes, count: body.len))
            default: continue
            }
        }
    }

    /// Lets the library use the memory of a channel's frames again. Nothing that ``receive()`` lent is good after it.
    func releaseMemory(channel: UInt16) { unsafe amqp_maybe_release_buffers_on_channel(state, channel) }

    private func check(_ status: Int32, _ action: String) throws(AMQPError) {
        guard status != AMQP_STATUS_OK.rawValue else { return }
        throw LibraryStatus(status).error(action, hasBarked: guarded.hasBarked)
    }
}
