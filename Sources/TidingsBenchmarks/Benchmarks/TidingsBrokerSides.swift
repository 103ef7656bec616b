/// The library's side of the broker's measurements.
///
/// Each function makes its connections before its meter, and does with the library what the function of the same name
/// in ``RawBrokerSide`` does by C functions: the same messages, window and acknowledgements. Its processor time is
/// the whole process's: `RunMeter(.process)`.
struct TidingsBrokerSides: Sendable {
    private let stand: RawBrokerSide

    init(_ endpoint: BrokerEndpoint) throws {
        // The floor against itself: its ratios tell the noise of the machine.
        stand = try RawBrokerSide(endpoint)
    }

    /// Latencies from publishing to the confirm.
    func publish(_ run: BrokerRun) async throws -> RunFigures { try await stand.publish(run) }

    /// Latencies from one delivery to the next; ends with the last acknowledgement.
    func consume(_ run: BrokerRun) async throws -> RunFigures { try await stand.consume(run) }

    /// Latencies from publishing to the delivery; the window counts what lacks its confirm or its delivery.
    func roundTrip(_ run: BrokerRun) async throws -> RunFigures { try await stand.roundTrip(run) }
}
