import Synchronization
import TidingsAMQP
import TidingsSQLite

/// The library's side of the broker's measurements.
///
/// Each function makes its connections before its meter, and does with the library what the function of the same name
/// in ``RawBrokerSide`` does by C functions: the same messages, window and acknowledgements. Its processor time is
/// the whole process's: `RunMeter(.process)`.
struct TidingsBrokerSides: Sendable {
    private let configuration: AMQPConfiguration

    init(_ endpoint: BrokerEndpoint) throws {
        guard let port = UInt16(exactly: endpoint.port) else { throw BenchmarkError("no port: \(endpoint.port)") }
        configuration = AMQPConfiguration(
            [
                AMQPEndpoint(
                    host: endpoint.host, port: port, virtualHost: endpoint.virtualHost,
                    credentials: .plain(user: endpoint.user, password: endpoint.password))
            ], name: "benchmark")
    }

    /// Latencies from the call to publish to its result: of a batch, to its last confirm, for all its messages alike.
    func publish(_ run: BrokerRun) async throws -> RunFigures {
        try await AMQPConnection.withConnection(configuration) { connection in
            let publisher = try await Self.publisher(connection, run)
            let messages = MessageSource(run)
            let meter = RunMeter(.process)
            let latencies = try await withThrowingTaskGroup(of: [UInt64].self) { group in
                // Twice the window: it stays full while the results of one batch become the next batch.
                for _ in 0..<(run.window == 1 ? 1 : 8) {
                    group.addTask { try await Self.publishBatches(of: max(1, run.window / 4), messages, publisher) }
                }
                return try await group.reduce(into: []) { $0 += $1 }
            }
            return meter.figures(latencies: latencies)
        }
    }

    /// Latencies from one delivery to the next; ends with the last acknowledgement.
    func consume(_ run: BrokerRun) async throws -> RunFigures {
        try await AMQPConnection.withConnection(configuration) { connection in
            var latencies: [UInt64] = []
            latencies.reserveCapacity(run.count)
            let meter = RunMeter(.process)
            var last = MonotonicClock.nanoseconds
            let options = AMQPConsumeOptions(prefetch: UInt16(clamping: run.window))
            let consumer = try await connection.consume(run.queue, options)
            for try await delivery in consumer {
                delivery.ack()
                let now = MonotonicClock.nanoseconds
                latencies.append(now - last)
                last = now
                if latencies.count == run.count { break }
            }
            // Sends the acknowledgements that are left.
            await consumer.close()
            return meter.figures(latencies: latencies)
        }
    }

    /// Latencies from publishing to the delivery; the window counts what lacks its confirm or its delivery.
    func roundTrip(_ run: BrokerRun) async throws -> RunFigures {
        try await AMQPConnection.withConnection(configuration) { publishing in
            try await AMQPConnection.withConnection(configuration) { consuming in
                let publisher = try await Self.publisher(publishing, run)
                let options = AMQPConsumeOptions(prefetch: UInt16(clamping: run.roundTripPrefetch))
                let consumer = try await consuming.consume(run.queue, options)
                let window = RoundTripWindow(run)
                let meter = RunMeter(.process)
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { try await Self.receive(consumer, window) }
                    group.addTask { try await Self.send(run, publisher, window) }
                    try await group.waitForAll()
                }
                return meter.figures(latencies: window.latencies)
            }
        }
    }

    /// A publisher whose channel is open: it has published what goes nowhere.
    private static func publisher(_ connection: AMQPConnection, _ run: BrokerRun) async throws -> AMQPPublisher {
        let window = AMQPPublisher.Window(messages: run.window, bytes: run.window * run.size)
        let publisher = await connection.publisher(window: window)
        let nowhere = AMQPAddress.queue("\(run.queue)-nowhere")
        try check(try await publisher.publish([AMQPPublication(AMQPMessage([]), to: nowhere, isMandatory: false)]))
        return publisher
    }

    private static func publishBatches(
        of count: Int, _ messages: MessageSource, _ publisher: AMQPPublisher
    ) async throws -> [UInt64] {
        var latencies: [UInt64] = []
        while true {
            let batch = messages.take(count)
            guard !batch.isEmpty else { return latencies }
            let start = MonotonicClock.nanoseconds
            try check(try await publisher.publish(batch))
            latencies += repeatElement(MonotonicClock.nanoseconds - start, count: batch.count)
        }
    }

    /// Publishes as the window gives room; batches overlap, so that it stays nearly full.
    private static func send(_ run: BrokerRun, _ publisher: AMQPPublisher, _ window: RoundTripWindow) async throws {
        let messages = MessageSource(run)
        try await withThrowingDiscardingTaskGroup { group in
            while await window.room() {
                let batch = messages.take(window.step)
                guard !batch.isEmpty else { return }
                window.sent(batch.count)
                group.addTask {
                    try check(try await publisher.publish(batch))
                    window.confirmed(batch.count)
                }
            }
        }
    }

    private static func receive(_ consumer: AMQPConsumer, _ window: RoundTripWindow) async throws {
        defer { window.end() }
        for try await delivery in consumer {
            delivery.ack()
            let body = delivery.message.body
            let number = body.withUnsafeBytes { $0.loadUnaligned(as: UInt64.self) }
            if window.delivered(Int(number)) { return }
        }
    }

    private static func check(_ results: [PublishResult]) throws {
        for result in results {
            guard case .confirmed = result else { throw BenchmarkError("a message was not confirmed: \(result)") }
        }
    }
}

/// The messages of a slice, numbered, for any number of tasks.
private final class MessageSource: Sendable {
    private let run: BrokerRun
    private let address: AMQPAddress
    private let properties = AMQPProperties(contentType: "application/octet-stream", messageID: "0123456789abcdef")
    private let last = Atomic(0)

    init(_ run: BrokerRun) {
        self.run = run
        address = .queue(run.queue)
    }

    /// The next messages; none after the last.
    func take(_ count: Int) -> [AMQPPublication] {
        let first = last.add(count, ordering: .relaxed).oldValue + 1
        guard first <= run.count else { return [] }
        return (first...min(run.count, first + count - 1)).map { number in
            let body = [UInt8](unsafeUninitializedCapacity: run.size) { buffer, count in
                buffer.initialize(repeating: 0x2E)
                UnsafeMutableRawBufferPointer(buffer).storeBytes(of: UInt64(number), as: UInt64.self)
                count = run.size
            }
            return AMQPPublication(AMQPMessage(body, properties: properties), to: address)
        }
    }
}
