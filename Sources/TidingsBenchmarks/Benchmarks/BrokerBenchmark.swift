/// Messages through the broker, by the library and by C functions in turn.
///
/// Broker and both sides share the machine, so that only ratios mean anything.
struct BrokerBenchmark {
    /// What is done with the messages.
    enum Work: String {
        case publish
        case consume
        case roundTrip = "round trip"
    }

    let work: Work
    let options: BenchmarkOptions

    func run() async throws -> [Measurement] {
        try await BenchmarkBroker.with(options) { try await run($0) }
    }

    private func run(_ endpoint: BrokerEndpoint) async throws -> [Measurement] {
        var measurements: [Measurement] = []
        for type in options.broker.queueTypes {
            for size in options.broker.sizes {
                for window in options.broker.windows {
                    measurements += try await compare(type, size, window, endpoint)
                }
            }
        }
        return measurements
    }

    private func compare(
        _ type: QueueType, _ size: Int, _ window: Int, _ endpoint: BrokerEndpoint
    ) async throws -> [Measurement] {
        let raw = try RawBrokerSide(endpoint)
        let sides = sides(raw, try TidingsBrokerSides(endpoint))
        let count = options.broker.messages(window: window)
        var pairs = FigurePairs()
        for pair in 0..<options.pairs + 1 {
            var figures: [RunFigures] = []
            for side in pair % 2 == 0 ? [sides.floor, sides.value] : [sides.value, sides.floor] {
                // A queue for each slice: empty, or with what is to be consumed.
                figures.append(
                    try await RawQueue.with(type, endpoint) { queue in
                        let run = BrokerRun(queue: queue, count: count, size: size, window: window)
                        if work == .consume { try await raw.fill(run) }
                        return try await side(run)
                    })
            }
            // The first pair warms up.
            guard pair > 0 else { continue }
            pairs.add(floor: figures[pair % 2], value: figures[1 - pair % 2])
        }
        let hasGoal = work == .publish && type == .quorum && window == 1000
        return pairs.measurements("\(work.rawValue), \(type), \(size) B, window \(window)", hasGoal: hasGoal)
    }

    /// A slice by one of the sides.
    private typealias Side = (BrokerRun) async throws -> RunFigures

    private func sides(_ raw: RawBrokerSide, _ tidings: TidingsBrokerSides) -> (floor: Side, value: Side) {
        switch work {
        case .publish: ({ try await raw.publish($0) }, { try await tidings.publish($0) })
        case .consume: ({ try await raw.consume($0) }, { try await tidings.consume($0) })
        case .roundTrip: ({ try await raw.roundTrip($0) }, { try await tidings.roundTrip($0) })
        }
    }
}

/// The pairs of every figure of a row.
private struct FigurePairs {
    private var rate = Pairs()
    private var cpu = Pairs()
    private var p50 = Pairs()
    private var p99 = Pairs()

    mutating func add(floor: RunFigures, value: RunFigures) {
        rate.add(floor: floor.rate, value: value.rate)
        cpu.add(floor: floor.cpu, value: value.cpu)
        p50.add(floor: floor.p50, value: value.p50)
        p99.add(floor: floor.p99, value: value.p99)
    }

    func measurements(_ title: String, hasGoal: Bool) -> [Measurement] {
        [
            rate.measurement("\(title), rate", "messages/s", goal: hasGoal ? 0.90 : nil, bound: .atLeast),
            cpu.measurement("\(title), processor time", "µs/message", goal: hasGoal ? 1.5 : nil),
            p50.measurement("\(title), p50", "µs"),
            p99.measurement("\(title), p99", "µs"),
        ]
    }
}
