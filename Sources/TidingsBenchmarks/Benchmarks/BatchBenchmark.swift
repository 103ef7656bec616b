import PersistentHistory
import TidingsSQLite

/// Large transactions, tracked against plain.
struct BatchBenchmark {
    let options: BenchmarkOptions
    private static let rows = 100_000
    private static let update = "UPDATE article SET views = views + 1"
    private static let delete = "DELETE FROM article WHERE id > \(rows)"

    private static let goals: [RowOperation: Double] = [.insert: 1.45, .update: 2.3, .delete: 1.35]

    func run() async throws -> [Measurement] {
        let directory = try ScratchDirectory(in: options.directory)
        let base = directory.file("base.db")
        try RawArticles.create(base, rows: Self.rows)
        let tracked = try await TrackedSide(directory.copy(base, to: "tracked.db"), rows: Self.rows)
        let raw = try RawArticles(directory.copy(base, to: "raw.db"))
        var pairs: [RowOperation: Pairs] = [:]
        for pair in 0..<options.pairs {
            // After each round the table is as it was before.
            for operation in [RowOperation.insert, .update, .delete] {
                let seed = UInt64(pair + 1) &* 0x9E37_79B9_7F4A_7C15
                var floor = 0.0
                if pair % 2 == 0 { floor = try Self.raw(operation, raw, seed) }
                let value = try await Self.tracked(operation, tracked.store, seed)
                if pair % 2 == 1 { floor = try Self.raw(operation, raw, seed) }
                pairs[operation, default: Pairs()].add(floor: floor, value: value)
                try await Self.settle(tracked.store, directory.file("tracked.db"), raw.database)
            }
        }
        await tracked.store.close()
        let times = RowOperation.allCases.compactMap { operation in
            pairs[operation]?.measurement("100k rows, \(operation), to plain", "ms", goal: Self.goals[operation])
        }
        return times + (try await MemoryBenchmark(options: options).run(directory))
    }

    /// Milliseconds of one transaction through the library.
    private static func tracked(_ operation: RowOperation, _ store: HistoryStore, _ seed: UInt64) async throws -> Double
    {
        let workload = ArticleWorkload(rows: rows, seed: seed)
        return try await awaitedMicroseconds {
            _ = try await store.writeRepeatedly(1, from: workload) { database, workload in
                switch operation {
                case .insert:
                    try database.withStatement(ArticleWorkload.insert) { statement in
                        for _ in 0..<rows {
                            workload.prepare(.insert)
                            try workload.insert(statement)
                        }
                    }
                case .update: try database.execute(update)
                case .delete: try database.execute(delete)
                }
            }
        } / 1000
    }

    /// Milliseconds of the same transaction by C functions.
    private static func raw(_ operation: RowOperation, _ articles: RawArticles, _ seed: UInt64) throws -> Double {
        var workload = ArticleWorkload(rows: rows, seed: seed)
        return try microseconds {
            try articles.database.begin()
            switch operation {
            case .insert:
                for _ in 0..<rows {
                    workload.prepare(.insert)
                    try articles.write(.insert, workload)
                }
            case .update: try articles.database.execute(update)
            case .delete: try articles.database.execute(delete)
            }
            try articles.database.commit()
        } / 1000
    }

    /// Takes the history away, so that each round meets the same file, and empties both logs.
    private static func settle(_ store: HistoryStore, _ path: String, _ raw: RawDatabase) async throws {
        try await store.deleteHistory(before: .token(store.currentToken()))
        try RawDatabase(path).checkpoint()
        try raw.checkpoint()
    }
}
