import PersistentHistory
import TidingsSQLite

/// One-row transactions, one after the other on the writing thread.
struct CaptureBenchmark {
    let options: BenchmarkOptions
    private let rows = 100_000

    func run() async throws -> [Measurement] {
        let memory = try ScratchDirectory(in: options.directory)
        let base = memory.file("base.db")
        try RawArticles.create(base, rows: rows)
        var measurements = try await compare(base, memory, .normal)
        if options.disk == "none" { return measurements }
        let disk = try ScratchDirectory(in: options.disk)
        measurements += try await compare(base, disk, .full)
        return measurements
    }

    private func compare(
        _ base: String, _ directory: ScratchDirectory, _ synchronous: Synchronous
    ) async throws -> [Measurement] {
        var tracked = try await TrackedSide(
            directory.copy(base, to: "tracked.db"), rows: rows, synchronous: synchronous)
        let raw = try RawSide(directory.copy(base, to: "raw.db"), rows: rows, synchronous: synchronous)
        var measurements: [Measurement] = []
        for operation in RowOperation.allCases {
            // Warms both up, and tells how large a row of history is.
            _ = try await tracked.slice(operation, 500)
            let extra = synchronous == .full ? 0 : try await tracked.rowSize()
            _ = try await raw.slice(operation, 500, extra: extra)
            let count = (options.isQuick ? 500 : 2000) / (synchronous == .full ? 10 : 1)
            var pairs = Pairs()
            for pair in 0..<options.pairs {
                if pair % 2 == 0 {
                    let floor = try await raw.slice(operation, count, extra: extra)
                    pairs.add(floor: floor, value: try await tracked.slice(operation, count))
                } else {
                    let value = try await tracked.slice(operation, count)
                    pairs.add(floor: try await raw.slice(operation, count, extra: extra), value: value)
                }
            }
            let isFull = synchronous == .full
            measurements.append(
                pairs.measurement(
                    "one-row \(operation), \(isFull ? "FULL on disk, to plain" : "NORMAL, to plain + a row")",
                    "µs", goal: isFull ? 1.15 : 1.10))
            if !isFull { measurements += try await work(operation, &tracked, raw, extra) }
        }
        if synchronous == .normal { measurements.append(try await awaited(&tracked)) }
        await tracked.store.close()
        return measurements
    }

    /// What can be counted instead of timed: pages written to the log, and steps of SQLite's virtual machine.
    private func work(
        _ operation: RowOperation, _ tracked: inout TrackedSide, _ raw: RawSide, _ extra: Int
    ) async throws -> [Measurement] {
        let count = 100
        let (frames, steps) = try await tracked.work(operation, count)
        let (floorFrames, floorSteps) = try await raw.work(operation, count, extra: extra)
        var framePairs = Pairs()
        framePairs.add(floor: floorFrames, value: frames)
        var stepPairs = Pairs()
        stepPairs.add(floor: floorSteps, value: steps)
        return [
            framePairs.measurement("one-row \(operation), log frames", "frames"),
            stepPairs.measurement("one-row \(operation), virtual-machine steps", "steps"),
        ]
    }

    /// The way to the writing thread and back.
    private func awaited(_ tracked: inout TrackedSide) async throws -> Measurement {
        var pairs = Pairs()
        let count = options.isQuick ? 200 : 1000
        for _ in 0..<options.pairs {
            let floor = try await tracked.slice(.update, count)
            pairs.add(floor: floor, value: try await tracked.awaitedSlice(count))
        }
        return pairs.measurement("one-row update, each awaited, to in a loop", "µs")
    }
}
