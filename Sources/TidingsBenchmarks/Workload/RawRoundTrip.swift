import CTidingsRabbitMQ
import TidingsSQLite

/// The floor of a round trip: published on one connection, delivered on another, by C functions on one thread.
///
/// A latency is the time from publishing to the delivery. The next message is sent when fewer than the window lack
/// their confirm or their delivery.
struct RawRoundTrip {
    private let run: BrokerRun
    private let publisher: RawPublisher
    private let consumer: RawConsumer
    private var latencies: [UInt64] = []

    init(_ endpoint: BrokerEndpoint, _ run: BrokerRun) throws {
        self.run = run
        publisher = try RawPublisher(endpoint, run)
        consumer = try RawConsumer(endpoint, run, prefetch: run.roundTripPrefetch)
        latencies.reserveCapacity(run.count)
        try consumer.subscribe()
    }

    mutating func roundTripAll() throws -> RunFigures {
        let meter = RunMeter(.thread)
        while done < run.count {
            while publisher.confirms.sentCount < run.count, publisher.confirms.sentCount - done < run.window {
                try publisher.publish()
            }
            let (hasConfirms, hasDeliveries) = try waitForInput()
            if hasConfirms { try publisher.takeConfirms(seconds: 0) }
            if hasDeliveries { try takeDeliveries() }
        }
        return meter.figures(latencies: latencies)
    }

    /// The messages that are through, by both ways.
    private var done: Int { min(publisher.confirms.confirmedCount, latencies.count) }

    private mutating func takeDeliveries() throws {
        repeat {
            guard try consumer.receive(seconds: 0) else { continue }
            latencies.append(MonotonicClock.nanoseconds - publisher.confirms.sent(consumer.number))
        } while consumer.connection.hasInput
    }

    /// Waits until one of the sockets can be read; tells which.
    private func waitForInput() throws -> (publisher: Bool, consumer: Bool) {
        let buffered = (publisher.connection.hasInput, consumer.connection.hasInput)
        if buffered.0 || buffered.1 { return buffered }
        var descriptors = (
            pollfd(fd: amqp_get_sockfd(publisher.connection.state), events: Int16(POLLIN), revents: 0),
            pollfd(fd: amqp_get_sockfd(consumer.connection.state), events: Int16(POLLIN), revents: 0)
        )
        let count = withUnsafeMutableBytes(of: &descriptors) { bytes in
            poll(bytes.bindMemory(to: pollfd.self).baseAddress, 2, 30_000)
        }
        guard count > 0 else { throw BenchmarkError("neither confirm nor delivery within 30 s") }
        return (descriptors.0.revents != 0, descriptors.1.revents != 0)
    }
}
