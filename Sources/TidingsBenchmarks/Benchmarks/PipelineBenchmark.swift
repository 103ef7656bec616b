import TidingsSQLite

/// From commit to merged: commit, durable, published, delivered, merged, the token durable; beside the same by C
/// functions.
struct PipelineBenchmark {
    /// What is done.
    enum Work {
        /// One commit after the other, each merged before the next.
        case latency
        /// Commits as fast as they go.
        case flatOut
    }

    let work: Work
    let options: BenchmarkOptions
    private static let rows = 10_000
    /// The library's own default.
    private static let window = 1000

    func run() async throws -> [Measurement] {
        try await BenchmarkBroker.with(options) { endpoint in
            let memory = try ScratchDirectory(in: options.directory)
            let base = memory.file("base.db")
            try RawArticles.create(base, rows: Self.rows)
            var measurements = try await compare(base, memory, "in \(options.directory)", endpoint)
            guard options.disk != "none" else { return measurements }
            let disk = try ScratchDirectory(in: options.disk)
            measurements += try await compare(base, disk, "on disk", endpoint)
            return measurements
        }
    }

    private func compare(
        _ base: String, _ directory: ScratchDirectory, _ place: String, _ endpoint: BrokerEndpoint
    ) async throws -> [Measurement] {
        let tidings = try await TidingsPipelineSide(
            endpoint, directory.copy(base, to: "tracked.db"), rows: Self.rows)
        let raw = try directory.copy(base, to: "raw.db")
        let measurements = try await Services.run(tidings.services) {
            let sizes = try await tidings.sizes()
            let floor = try await RawPipelineSide(endpoint, raw, rows: Self.rows, extra: sizes.row)
            return switch work {
            case .latency: try await latency(tidings, floor, sizes.body, place)
            case .flatOut: try await flatOut(tidings, floor, sizes.body, place)
            }
        }
        try await tidings.close()
        return measurements
    }

    private func latency(
        _ tidings: TidingsPipelineSide, _ raw: RawPipelineSide, _ bodySize: Int, _ place: String
    ) async throws -> [Measurement] {
        let count = max(1, options.broker.messages / 40)
        var (p50, p99) = (Pairs(), Pairs())
        for pair in 0..<options.pairs + 1 {
            var floor: [UInt64] = []
            if pair % 2 == 0 { floor = try await raw.oneByOne(count, bodySize: bodySize) }
            let value = try await tidings.oneByOne(count)
            if pair % 2 == 1 { floor = try await raw.oneByOne(count, bodySize: bodySize) }
            // The first pair warms up.
            guard pair > 0 else { continue }
            p50.add(floor: Self.quantile(0.5, floor), value: Self.quantile(0.5, value))
            p99.add(floor: Self.quantile(0.99, floor), value: Self.quantile(0.99, value))
        }
        let title = "commit to merged, one at a time, \(place)"
        return [
            p50.measurement("\(title), p50", "µs", goal: 1.5), p99.measurement("\(title), p99", "µs", goal: 1.5),
        ]
    }

    private func flatOut(
        _ tidings: TidingsPipelineSide, _ raw: RawPipelineSide, _ bodySize: Int, _ place: String
    ) async throws -> [Measurement] {
        let count = options.broker.messages
        var (rate, published, cpu, p50, p99) = (Pairs(), Pairs(), Pairs(), Pairs(), Pairs())
        for pair in 0..<options.pairs + 1 {
            var floor: RunFigures?
            if pair % 2 == 0 { floor = try await raw.flatOut(count, bodySize: bodySize, window: Self.window) }
            let value = try await tidings.flatOut(count)
            if pair % 2 == 1 { floor = try await raw.flatOut(count, bodySize: bodySize, window: Self.window) }
            // The first pair warms up.
            guard pair > 0, let floor else { continue }
            rate.add(floor: floor.rate, value: value.merged.rate)
            published.add(floor: floor.rate, value: value.published.rate)
            cpu.add(floor: floor.cpu, value: value.published.cpu)
            p50.add(floor: floor.p50 / 1000, value: value.merged.p50 / 1000)
            p99.add(floor: floor.p99 / 1000, value: value.merged.p99 / 1000)
        }
        let title = "\(count) commits flat out, \(place)"
        return [
            rate.measurement("\(title), merged", "commits/s", bound: .atLeast),
            published.measurement("\(title), published", "commits/s", bound: .atLeast),
            cpu.measurement("\(title), processor time", "µs/commit"),
            p50.measurement("\(title), lag p50", "ms"), p99.measurement("\(title), lag p99", "ms"),
        ]
    }

    /// In microseconds.
    private static func quantile(_ share: Double, _ latencies: [UInt64]) -> Double {
        Statistics.quantile(share, latencies.map { Double($0) / 1000 })
    }
}
