import CTidingsSQLite
import PersistentHistory
import TidingsSQLite

/// Reading history.
struct FetchBenchmark {
    let options: BenchmarkOptions

    func run() async throws -> [Measurement] {
        let directory = try ScratchDirectory(in: options.directory)
        let base = directory.file("base.db")
        try RawArticles.create(base, rows: 10_000)
        return try await decode(directory.copy(base, to: "decode.db"))
            + LongHistoryBenchmark(options: options).run(base, directory)
    }

    /// One-change transactions: inserts, updates and deletes in turn.
    private func decode(_ path: String) async throws -> [Measurement] {
        var side = try await TrackedSide(path, rows: 10_000)
        let transactions = options.isQuick ? 30_000 : 99_999
        for operation in RowOperation.allCases { _ = try await side.slice(operation, transactions / 3) }
        let raw = try RawDatabase(path)
        try raw.checkpoint()
        let scan = try raw.prepare(
            """
            SELECT sequence, nonce, time, author, context, origin, entities, change_count, chunk_count, changes
            FROM history_transaction ORDER BY sequence
            """)
        var walk = Pairs()
        var values = Pairs()
        for _ in 0..<options.pairs {
            let floor = Self.scan(scan) / 1000
            walk.add(floor: floor, value: try await Self.walk(side.store) / 1000)
            let second = Self.scan(scan) / 1000
            values.add(floor: second, value: try await Self.decode(side.store) / 1000)
        }
        await side.store.close()
        return [
            walk.measurement("fetch and walk \(transactions) transactions, to stepping", "ms", goal: 1.3),
            values.measurement("the same, with a copy of every value", "ms"),
        ]
    }

    /// Microseconds to step over all rows and touch every column.
    private static func scan(_ statement: OpaquePointer) -> Double {
        var sum: Int64 = 0
        let time = microseconds {
            while sqlite3_step(statement) == SQLITE_ROW {
                for column: Int32 in [0, 1, 2, 7, 8] { sum &+= sqlite3_column_int64(statement, column) }
                for column: Int32 in [3, 4, 5] where sqlite3_column_text(statement, column) != nil {
                    sum &+= Int64(sqlite3_column_bytes(statement, column))
                }
                for column: Int32 in [6, 9] where sqlite3_column_blob(statement, column) != nil {
                    sum &+= Int64(sqlite3_column_bytes(statement, column))
                }
            }
            sqlite3_reset(statement)
        }
        precondition(sum != 0)
        return time
    }

    /// Microseconds to read all pages and walk over every record and value.
    private static func walk(_ store: HistoryStore) async throws -> Double {
        var count = 0
        let time = try await awaitedMicroseconds {
            for try await page in store.pages() {
                for transaction in page {
                    try transaction.changes.decode { change in if change.operation != .update { count += 1 } }
                }
            }
        }
        precondition(count > 0)
        return time
    }

    /// Microseconds to read all pages and copy every value out.
    private static func decode(_ store: HistoryStore) async throws -> Double {
        var count = 0
        let time = try await awaitedMicroseconds {
            for try await page in store.pages() {
                for transaction in page {
                    try transaction.changes.decode { change in count += change.decoded().key.count }
                }
            }
        }
        precondition(count > 0)
        return time
    }
}
