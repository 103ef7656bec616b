import CTidingsRabbitMQ
import TidingsSQLite

/// The floor of consuming: frames as they come, acknowledged many at a time, by C functions.
final class RawConsumer {
    let connection: RawBrokerConnection
    /// The messages that were received whole.
    private(set) var count = 0
    /// The number in the last message.
    private(set) var number = 0
    /// False where the caller acknowledges, once what was received is safe.
    var acknowledgesItself = true
    private let run: BrokerRun
    private let queue: RawText
    private var tag: UInt64 = 0
    private var acknowledgedTag: UInt64 = 0
    private var missingBytes: UInt64 = 0
    private var isFirstFragment = false
    private var frame = amqp_frame_t()

    init(_ endpoint: BrokerEndpoint, _ run: BrokerRun, prefetch: Int) throws {
        connection = try RawBrokerConnection(endpoint)
        self.run = run
        queue = RawText(run.queue)
        amqp_basic_qos(connection.state, RawBrokerConnection.channel, 0, UInt16(clamping: prefetch), 0)
        try connection.checkReply("limiting deliveries")
    }

    /// Asks for deliveries.
    func subscribe() throws {
        amqp_basic_consume(
            connection.state, RawBrokerConnection.channel, queue.bytes, amqp_empty_bytes, 0, 0, 0, amqp_empty_table)
        try connection.checkReply("consuming")
    }

    /// Receives and acknowledges all messages; a latency is the time from one delivery to the next.
    func consumeAll() throws -> RunFigures {
        var latencies: [UInt64] = []
        latencies.reserveCapacity(run.count)
        let meter = RunMeter(.thread)
        var last = MonotonicClock.nanoseconds
        try subscribe()
        while count < run.count {
            guard try receive(seconds: 30) else { continue }
            let now = MonotonicClock.nanoseconds
            latencies.append(now - last)
            last = now
        }
        return meter.figures(latencies: latencies)
    }

    /// Takes one frame; true where it ends a message. Without seconds, false also tells that there is none.
    @inline(__always)
    func receive(seconds: Int) throws -> Bool {
        guard try connection.wait(&frame, seconds: seconds) else {
            if seconds > 0 { throw BenchmarkError("no delivery within \(seconds) s") }
            return false
        }
        guard try takeFrame() else { return false }
        count += 1
        if acknowledgesItself, count % run.acknowledgedTogether == 0 || count == run.count { try acknowledge() }
        connection.releaseBuffers()
        return true
    }

    /// True where the frame ends a message.
    @inline(__always)
    private func takeFrame() throws -> Bool {
        switch Int32(frame.frame_type) {
        case AMQP_FRAME_METHOD:
            guard frame.payload.method.id == AMQP_BASIC_DELIVER_METHOD else {
                throw RawBrokerConnection.unexpected(frame.payload.method)
            }
            // Borrowed from the connection until its buffers are released.
            tag = frame.payload.method.decoded.assumingMemoryBound(to: amqp_basic_deliver_t.self).pointee.delivery_tag
            return false
        case AMQP_FRAME_HEADER:
            missingBytes = frame.payload.properties.body_size
            isFirstFragment = true
            return false
        case AMQP_FRAME_BODY:
            let fragment = frame.payload.body_fragment
            if isFirstFragment, fragment.len >= 8, let bytes = fragment.bytes {
                number = Int(bytes.loadUnaligned(as: UInt64.self))
            }
            isFirstFragment = false
            missingBytes -= UInt64(fragment.len)
            return missingBytes == 0
        default: return false
        }
    }

    /// Settles all deliveries up to the last: once, as a second time would close the channel.
    func acknowledge() throws {
        guard tag > acknowledgedTag else { return }
        acknowledgedTag = tag
        try RawBrokerConnection.check(
            amqp_basic_ack(connection.state, RawBrokerConnection.channel, tag, 1), "acknowledging")
    }
}
