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
        guard let url = options.broker.url else {
            throw BenchmarkError("name a broker: --broker amqp://user:password@host:port/vhost")
        }
        let endpoint = try BrokerEndpoint(url)
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
        let tidings = try TidingsBrokerSides(endpoint)
        let slice = Slice(
            type: type, size: size, window: window, count: options.broker.messages(window: window), endpoint: endpoint)
        var pairs = FigurePairs()
        for pair in 0..<options.pairs + 1 {
            let floor: RunFigures
            let value: RunFigures
            if pair % 2 == 0 {
                floor = try await through(raw, slice)
                value = try await through(tidings, slice)
            } else {
                value = try await through(tidings, slice)
                floor = try await through(raw, slice)
            }
            // The first pair warms up.
            if pair > 0 { pairs.add(floor: floor, value: value) }
        }
        let hasGoal = work == .publish && type == .quorum && window == 1000
        return pairs.measurements("\(work.rawValue), \(type), \(size) B, window \(window)", hasGoal: hasGoal)
    }

    /// What every slice of a row is like.
    private struct Slice {
        let type: QueueType
        let size: Int
        let window: Int
        let count: Int
        let endpoint: BrokerEndpoint
    }

    private func through(_ side: RawBrokerSide, _ slice: Slice) async throws -> RunFigures {
        try await with(slice) { run in
            switch work {
            case .publish: try await side.publish(run)
            case .consume: try await side.consume(run)
            case .roundTrip: try await side.roundTrip(run)
            }
        }
    }

    private func through(_ side: TidingsBrokerSides, _ slice: Slice) async throws -> RunFigures {
        try await with(slice) { run in
            switch work {
            case .publish: try await side.publish(run)
            case .consume: try await side.consume(run)
            case .roundTrip: try await side.roundTrip(run)
            }
        }
    }

    /// A queue for one slice: empty, or with what is to be consumed.
    private func with(_ slice: Slice, _ body: (BrokerRun) async throws -> RunFigures) async throws -> RunFigures {
        try await RawQueue.with(slice.type, slice.endpoint) { queue in
            let run = BrokerRun(queue: queue, count: slice.count, size: slice.size, window: slice.window)
            if work == .consume {
                let filling = BrokerRun(queue: queue, count: slice.count, size: slice.size, window: 1000)
                _ = try await RawBrokerSide(slice.endpoint).publish(filling)
            }
            return try await body(run)
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
