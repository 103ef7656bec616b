import CTidingsSQLite

/// The article table by C functions, and a row of history's size beside each change where asked for.
final class RawArticles {
    let database: RawDatabase
    private let insertStatement: OpaquePointer
    private let updateStatement: OpaquePointer
    private let deleteStatement: OpaquePointer
    private let bytesStatement: OpaquePointer
    private let bytes = [UInt8](repeating: 0x61, count: 4096)

    init(_ path: String, synchronous: String = "NORMAL") throws {
        database = try RawDatabase(path, synchronous: synchronous)
        try database.execute("CREATE TABLE IF NOT EXISTS extra(id INTEGER PRIMARY KEY, bytes BLOB)")
        insertStatement = try database.prepare(ArticleWorkload.insert)
        updateStatement = try database.prepare(ArticleWorkload.update)
        deleteStatement = try database.prepare(ArticleWorkload.delete)
        bytesStatement = try database.prepare("INSERT INTO extra(bytes) VALUES (?)")
    }

    /// Creates a file with a full table.
    static func create(_ path: String, rows: Int) throws {
        let database = try RawDatabase(path, synchronous: "OFF")
        try database.execute(ArticleWorkload.schema)
        let articles = try RawArticles(path, synchronous: "OFF")
        var workload = ArticleWorkload(rows: 0, seed: 0x0F0F_1234_5555_AAAA)
        try articles.database.begin()
        for _ in 0..<rows {
            workload.prepare(.insert)
            try articles.write(.insert, workload)
        }
        try articles.database.commit()
        try database.checkpoint()
    }

    /// One transaction with the prepared row, and `extra` bytes in a row of their own.
    func transaction(_ operation: RowOperation, _ workload: ArticleWorkload, extra: Int) throws {
        try database.begin()
        try write(operation, workload)
        if extra > 0 { try writeExtra(extra) }
        try database.commit()
    }

    func write(_ operation: RowOperation, _ workload: ArticleWorkload) throws {
        switch operation {
        case .insert: try insert(workload)
        case .update:
            try workload.updatedAt.withUnsafeBytes { updatedAt in
                bind(updatedAt, updateStatement, 1)
                sqlite3_bind_int64(updateStatement, 2, workload.id)
                try database.run(updateStatement)
            }
        case .delete:
            sqlite3_bind_int64(deleteStatement, 1, workload.id)
            try database.run(deleteStatement)
        }
    }

    private func insert(_ workload: ArticleWorkload) throws {
        try workload.uuid.withUnsafeBytes { uuid in
            try workload.title.withUnsafeBytes { title in
                try workload.body.withUnsafeBytes { body in
                    try workload.updatedAt.withUnsafeBytes { updatedAt in
                        sqlite3_bind_int64(insertStatement, 1, workload.id)
                        bind(uuid, insertStatement, 2)
                        bind(title, insertStatement, 3)
                        bind(body, insertStatement, 4)
                        sqlite3_bind_int64(insertStatement, 5, workload.views)
                        sqlite3_bind_double(insertStatement, 6, workload.score)
                        bind(updatedAt, insertStatement, 7)
                        try database.run(insertStatement)
                    }
                }
            }
        }
    }

    private func writeExtra(_ count: Int) throws {
        try bytes.withUnsafeBytes { bytes in
            sqlite3_bind_blob(bytesStatement, 1, bytes.baseAddress, Int32(min(count, bytes.count)), nil)
            try database.run(bytesStatement)
        }
    }

    /// Binds text without a copy: it stays where it is until the statement has run.
    @inline(__always)
    private func bind(_ text: UnsafeRawBufferPointer, _ statement: OpaquePointer, _ index: Int32) {
        let characters = text.baseAddress?.assumingMemoryBound(to: CChar.self)
        sqlite3_bind_text(statement, index, characters, Int32(text.count), nil)
    }
}
