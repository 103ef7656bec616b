import CTidingsRabbitMQ

/// The floor of publishing: persistent, mandatory messages with confirms in a window, by C functions.
final class RawPublisher {
    let connection: RawBrokerConnection
    private(set) var confirms: RawConfirms
    private let run: BrokerRun
    private let queue: RawText
    private let contentType = RawText("application/octet-stream")
    private let messageID = RawText("0123456789abcdef")
    private let body: UnsafeMutableRawBufferPointer
    private var properties = amqp_basic_properties_t()
    private var frame = amqp_frame_t()

    init(_ endpoint: BrokerEndpoint, _ run: BrokerRun) throws {
        connection = try RawBrokerConnection(endpoint)
        self.run = run
        confirms = RawConfirms(count: run.count)
        queue = RawText(run.queue)
        body = .allocate(byteCount: run.size, alignment: 8)
        body.initializeMemory(as: UInt8.self, repeating: 0x2E)
        properties._flags = UInt32(
            AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG)
        properties.delivery_mode = UInt8(AMQP_DELIVERY_PERSISTENT.rawValue)
        properties.content_type = contentType.bytes
        properties.message_id = messageID.bytes
        amqp_confirm_select(connection.state, RawBrokerConnection.channel)
        try connection.checkReply("asking for confirms")
    }

    deinit { body.deallocate() }

    /// Publishes all messages and waits until the last is confirmed.
    func publishAll() throws -> RunFigures {
        let meter = RunMeter(.thread)
        while confirms.sentCount < run.count {
            try publish()
            while confirms.pendingCount >= run.window { try takeConfirms(seconds: 30) }
            // Now and then also while the window is open, so that the broker's confirms do not pile up.
            if confirms.sentCount & 63 == 0 { try takeConfirms(seconds: 0) }
        }
        while confirms.pendingCount > 0 { try takeConfirms(seconds: 30) }
        return meter.figures(latencies: confirms.latencies)
    }

    /// Sends the next message.
    @inline(__always)
    func publish() throws {
        body.storeBytes(of: UInt64(confirms.next()), as: UInt64.self)
        // All that is passed lives as long as the publisher; the call copies it to the socket.
        let code = amqp_basic_publish(
            connection.state, RawBrokerConnection.channel, amqp_empty_bytes, queue.bytes, 1, 0, &properties,
            amqp_bytes_t(len: body.count, bytes: body.baseAddress))
        try RawBrokerConnection.check(code, "publishing")
    }

    /// Takes the confirms that are there; waits for the first where it may.
    func takeConfirms(seconds: Int) throws {
        guard try connection.wait(&frame, seconds: seconds) else {
            if seconds > 0 { throw BenchmarkError("no confirm within \(seconds) s") }
            return
        }
        try takeFrame()
        while connection.hasInput {
            guard try connection.wait(&frame) else { break }
            try takeFrame()
        }
        connection.releaseBuffers()
    }

    @inline(__always)
    private func takeFrame() throws {
        guard frame.frame_type == AMQP_FRAME_METHOD else { return }
        guard frame.payload.method.id == AMQP_BASIC_ACK_METHOD else {
            throw RawBrokerConnection.unexpected(frame.payload.method)
        }
        // Borrowed from the connection until its buffers are released.
        try confirms.take(frame.payload.method.decoded.assumingMemoryBound(to: amqp_basic_ack_t.self).pointee)
    }
}
