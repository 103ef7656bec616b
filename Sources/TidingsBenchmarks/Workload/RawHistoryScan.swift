import CTidingsSQLite

/// The floor of catching up: one statement over the whole history, every record decoded, by C functions.
struct RawHistoryScan {
    private let database: RawDatabase
    private let statement: OpaquePointer
    private let records: RawRecords

    /// Opens a store whose only table is that of ``ArticleWorkload``.
    init(_ path: String) throws {
        database = try RawDatabase(path)
        try database.checkpoint()
        statement = try database.prepare(
            """
            SELECT sequence, nonce, time, author, context, origin, entities, change_count, chunk_count, changes
            FROM history_transaction ORDER BY sequence
            """)
        records = RawRecords(columns: 7, key: 0)
    }

    /// Microseconds to step over all rows, touch every column and decode every value.
    func run() throws -> Double {
        var sum = RawRecords.Sum()
        var expected: Int64 = 0
        let time = microseconds {
            while sqlite3_step(statement) == SQLITE_ROW {
                for column: Int32 in [0, 1, 2, 8] { sum.integers &+= sqlite3_column_int64(statement, column) }
                expected += sqlite3_column_int64(statement, 7)
                for column: Int32 in [3, 4, 5] where sqlite3_column_text(statement, column) != nil {
                    sum.bytes &+= Int(sqlite3_column_bytes(statement, column))
                }
                if sqlite3_column_blob(statement, 6) != nil { sum.bytes &+= Int(sqlite3_column_bytes(statement, 6)) }
                // Lent by SQLite until the next step.
                guard let changes = sqlite3_column_blob(statement, 9) else { continue }
                let count = Int(sqlite3_column_bytes(statement, 9))
                records.walk(changes.assumingMemoryBound(to: UInt8.self), count, &sum)
            }
            sqlite3_reset(statement)
        }
        guard sum.changes == expected, sum.integers != 0, sum.bytes > 0 else {
            throw BenchmarkError("the floor has decoded \(sum.changes) changes of \(expected)")
        }
        return time
    }
}
