import TidingsSQLite

/// The floor of the broker's measurements, on a thread of its own like the library's connections.
///
/// Each slice has connections of its own, made before its time starts, so that none is idle for long.
actor RawBrokerSide {
    private let executor: ThreadExecutor
    private let endpoint: BrokerEndpoint

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(_ endpoint: BrokerEndpoint) throws {
        executor = try ThreadExecutor(name: "floor")
        self.endpoint = endpoint
    }

    /// Publishes with confirms; latencies from publishing to the confirm.
    func publish(_ run: BrokerRun) throws -> RunFigures { try RawPublisher(endpoint, run).publishAll() }

    /// Publishes what is to be consumed.
    func fill(_ run: BrokerRun) throws {
        let filling = BrokerRun(queue: run.queue, count: run.count, size: run.size, window: 1000)
        _ = try RawPublisher(endpoint, filling).publishAll()
    }

    /// Receives what the queue holds; latencies from one delivery to the next.
    func consume(_ run: BrokerRun) throws -> RunFigures {
        try RawConsumer(endpoint, run, prefetch: run.window).consumeAll()
    }

    /// Publishes on one connection and receives on another; latencies from publishing to the delivery.
    func roundTrip(_ run: BrokerRun) throws -> RunFigures {
        var roundTrip = try RawRoundTrip(endpoint, run)
        return try roundTrip.roundTripAll()
    }
}
