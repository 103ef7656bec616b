import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("Blobs")
struct BlobTests {
    private func make() throws -> Database {
        try Database.memory(
            """
            CREATE TABLE t(id INTEGER PRIMARY KEY, b, other);
            INSERT INTO t VALUES (1, x'00010203', 0), (2, 'text', 0), (3, NULL, 0), (4, 5, 0), (5, x'', 0)
            """)
    }

    @Test("a blob or text is read in pieces")
    func read() throws {
        let database = try make()
        try database.withBlob(table: "t", column: "b", rowID: 1) { (blob) throws in
            #expect((blob.table, blob.column, blob.rowID, blob.count) == ("t", "b", 1, 4))
            #expect(try blob.read(4) == [0, 1, 2, 3])
            #expect(try blob.read(2, at: 1) == [1, 2])
            #expect(try blob.read(0, at: 4) == [])
            #expect(try blob.read(1, at: 3) == [3])
        }
        #expect(try database.withBlob(table: "t", column: "b", rowID: 2) { try $0.read(4) } == Array("text".utf8))
        #expect(try database.withBlob(table: "t", column: "b", rowID: 5) { $0.count } == 0)
    }

    @Test("a blob is written in pieces inside its length")
    func write() throws {
        let database = try make()
        try database.withBlob(table: "t", column: "b", rowID: 1, isWritable: true) { blob in
            try blob.write([9, 8], at: 2)
            try blob.write([7])
            try blob.write([], at: 4)
        }
        try database.withBlob(table: "t", column: "b", rowID: 2, isWritable: true) { try $0.write([0x54]) }
        #expect(try database.rows("SELECT b FROM t WHERE id <= 2") == [[.blob([7, 1, 9, 8])], ["Text"]])
    }

    @Test(
        "reading or writing past the end is refused",
        arguments: [(5, 0), (1, 4), (0, 5), (1, -1), (4, 1), (.max, 0), (.max, 1), (1, .max), (0, .max)])
    func pastTheEnd(length: Int, offset: Int) throws {
        let database = try make()
        try database.withBlob(table: "t", column: "b", rowID: 1, isWritable: true) { (blob) throws in
            let error = sqliteError { try blob.read(length, at: offset) }
            #expect(error?.code == .range)
            guard length <= 5 else { return }
            #expect(sqliteError { try blob.write([UInt8](repeating: 1, count: length), at: offset) }?.code == .range)
        }
        #expect(sqliteError { try database.withBlob(table: "t", column: "b", rowID: 1) { try $0.read(-1) } } != nil)
        #expect(try database.first("SELECT b FROM t WHERE id = 1") == [0, 1, 2, 3] as [UInt8])
    }

    @Test("the error of a read past the end names the place")
    func rangeMessage() throws {
        let database = try make()
        let error = sqliteError { try database.withBlob(table: "t", column: "b", rowID: 1) { try $0.read(3, at: 2) } }
        #expect(error?.message == "bytes 2..<5 are outside t.b, which has 4")
    }

    @Test(
        "what is no blob cannot be opened, and the error says why",
        arguments: [
            ("t", "b", 9, "cannot open t.b as a blob: no such rowid: 9"),
            ("t", "b", 3, "cannot open t.b as a blob: cannot open value of type null"),
            ("t", "b", 4, "cannot open t.b as a blob: cannot open value of type integer"),
            ("t", "c", 1, "cannot open t.c as a blob: no such column: \"c\""),
            ("u", "b", 1, "cannot open u.b as a blob: no such table: main.u"),
            ("w", "b", 1, "cannot open w.b as a blob: cannot open table without rowid: w"),
            ("v", "b", 1, "cannot open v.b as a blob: cannot open view: v"),
        ])
    func cannotOpen(table: String, column: String, rowID: Int64, message: String) throws {
        let database = try make()
        try database.execute("CREATE TABLE w(b PRIMARY KEY) WITHOUT ROWID; CREATE VIEW v AS SELECT b FROM t")
        let error = sqliteError { try database.withBlob(table: table, column: column, rowID: rowID) { _ in } }
        #expect(error?.code == .error)
        #expect(error?.message == message)
    }

    @Test("an indexed column, and a blob opened to read, cannot be written")
    func notWritable() throws {
        let database = try make()
        let readOnly = sqliteError { try database.withBlob(table: "t", column: "b", rowID: 1) { try $0.write([1]) } }
        #expect(readOnly?.code == .readOnly)
        try database.execute("CREATE INDEX i ON t(b)")
        let indexed = sqliteError {
            try database.withBlob(table: "t", column: "b", rowID: 1, isWritable: true) { _ in }
        }
        #expect(indexed?.message == "cannot open t.b as a blob: cannot open indexed column for writing")
    }

    @Test("a blob whose row has changed since is aborted")
    func rowChanged() throws {
        let database = try make()
        try database.withBlob(table: "t", column: "b", rowID: 1) { (blob) throws in
            try database.execute("UPDATE t SET other = 1 WHERE id = 1")
            let error = sqliteError { try blob.read(1) }
            #expect(error?.code == .aborted)
            #expect(error?.message == "the row of t.b has changed since the blob was opened: open it anew")
        }
    }

    @Test("a blob that outlives its closure is closed")
    func escaped() throws {
        let database = try make()
        let blob = try database.withBlob(table: "t", column: "b", rowID: 1, isWritable: true) { $0 }
        #expect(sqliteError { try blob.read(1) }?.code == .misuse)
        #expect(sqliteError { try blob.write([1]) }?.code == .misuse)
        #expect(!database.isInTransaction)
    }

    @Test("what was written stays in the transaction where the closure throws, and goes with the transaction")
    func closureThrows() throws {
        let database = try make()
        expectStop {
            try database.transaction {
                expectStop {
                    try database.withBlob(table: "t", column: "b", rowID: 1, isWritable: true) { blob in
                        try blob.write([9])
                        throw Stop()
                    }
                }
                #expect(try database.first("SELECT b FROM t WHERE id = 1") == [9, 1, 2, 3] as [UInt8])
                throw Stop()
            }
        }
        #expect(try database.first("SELECT b FROM t WHERE id = 1") == [0, 1, 2, 3] as [UInt8])
    }

    @Test("a blob outside a transaction whose commit fails when it closes says so", .timeLimit(.minutes(3)))
    func failedCommit() throws {
        let directory = try TemporaryDirectory()
        // With a rollback journal a reader holds up the commit.
        let options = OpenOptions(access: .create, busyTimeout: .milliseconds(1), usesWriteAheadLog: false)
        let database = try Database(path: directory.file("a.db"), options: options)
        try database.execute("CREATE TABLE t(b); INSERT INTO t VALUES (x'01')")
        let reader = try Database(path: directory.file("a.db"), options: options)
        try reader.transaction(.deferred) { () throws in
            #expect(try reader.table("t") == [[.blob([1])]])
            let error = sqliteError {
                try database.withBlob(table: "t", column: "b", rowID: 1, isWritable: true) { try $0.write([2]) }
            }
            #expect(error?.code == .busy)
        }
        #expect(try database.table("t") == [[.blob([1])]])
        try database.withBlob(table: "t", column: "b", rowID: 1, isWritable: true) { try $0.write([3]) }
        #expect(try reader.table("t") == [[.blob([3])]])
    }
}
