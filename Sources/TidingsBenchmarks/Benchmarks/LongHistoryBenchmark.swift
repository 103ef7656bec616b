import PersistentHistory
import TidingsSQLite

/// The same work on a long history and on a short one.
struct LongHistoryBenchmark {
    let options: BenchmarkOptions
    private static let short = 10_000

    func run(_ base: String, _ directory: ScratchDirectory) async throws -> [Measurement] {
        var short = try await side(base, "short.db", Self.short, directory)
        var long = try await side(base, "long.db", options.historyLength, directory)
        let count = options.isQuick ? 500 : 2000
        var inserts = Pairs()
        var fetches = Pairs()
        for pair in 0..<options.pairs + 1 {
            let floor = try await short.slice(.insert, count)
            let value = try await long.slice(.insert, count)
            let fetchFloor = try await Self.fetchNewest(short.store)
            let fetchValue = try await Self.fetchNewest(long.store)
            // The first pair warms up.
            guard pair > 0 else { continue }
            inserts.add(floor: floor, value: value)
            fetches.add(floor: fetchFloor, value: fetchValue)
        }
        await short.store.close()
        await long.store.close()
        let title = "with \(options.historyLength) transactions of history, to \(Self.short)"
        return [
            inserts.measurement("one-row insert \(title)", "µs", goal: 1.1),
            fetches.measurement("fetch of the newest 1000 \(title)", "µs", goal: 1.1),
        ]
    }

    private func side(
        _ base: String, _ name: String, _ length: Int, _ directory: ScratchDirectory
    ) async throws -> TrackedSide {
        let path = try directory.copy(base, to: name)
        var side = try await TrackedSide(path, rows: 10_000)
        _ = try await side.slice(.insert, 1)
        try SyntheticHistory.lengthen(path, by: length)
        return side
    }

    /// Microseconds to fetch the newest thousand, in the mean of a few times.
    private static func fetchNewest(_ store: HistoryStore) async throws -> Double {
        let times = 10
        return try await awaitedMicroseconds {
            for _ in 0..<times {
                var count = 0
                let request = HistoryRequest(limit: 1000, order: .newestFirst)
                for try await page in store.pages(request) {
                    for transaction in page { try transaction.changes.decode { _ in count += 1 } }
                }
                precondition(count == 1000)
            }
        } / Double(times)
    }
}
