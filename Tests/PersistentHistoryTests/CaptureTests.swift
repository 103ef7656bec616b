import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("Capture: corner cases", .timeLimit(.minutes(2)))
struct CaptureTests {
    /// Runs `setup` untracked, then `sql` tracked, and returns its changes in short.
    private func changes(_ schema: String, _ setup: String = "", _ sql: String) async throws -> [String] {
        let temporary = try await TemporaryStore(schema: schema + ";" + setup)
        guard try await temporary.write(sql) != nil else { return [] }
        return try await temporary.latestChanges().map(\.short)
    }

    private static let unique = "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE, v)"

    @Test("P4: INSERT OR REPLACE records the rows that it displaces through any unique index")
    func insertOrReplace() async throws {
        let setup = "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)"
        #expect(
            try await changes(Self.unique, setup, "INSERT OR REPLACE INTO t VALUES (1, 'b', 9)") == [
                "delete t{id=1} {id=1 u='a' v=1} -", "delete t{id=2} {id=2 u='b' v=2} -",
                "insert t{id=1} - {id=1 u='b' v=9}",
            ])
        #expect(
            try await changes(Self.unique, setup, "REPLACE INTO t(u, v) VALUES ('b', 9)") == [
                "delete t{id=2} {id=2 u='b' v=2} -", "insert t{id=3} - {id=3 u='b' v=9}",
            ])
    }

    @Test("P4: UPDATE OR REPLACE records the row that it displaces")
    func updateOrReplace() async throws {
        let setup = "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)"
        #expect(
            try await changes(Self.unique, setup, "UPDATE OR REPLACE t SET u = 'b' WHERE id = 1") == [
                "delete t{id=2} {id=2 u='b' v=2} -", "update t{id=1} {u='a'} {u='b'}",
            ])
    }

    @Test("P5: NULL to a value and back is recorded both ways")
    func nullTransitions() async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        try await temporary.write("INSERT INTO t VALUES (1, NULL)")
        try await temporary.write("UPDATE t SET v = 'x'")
        #expect(try await temporary.latestChanges().map(\.short) == ["update t{id=1} {v=NULL} {v='x'}"])
        try await temporary.write("UPDATE t SET v = NULL")
        #expect(try await temporary.latestChanges().map(\.short) == ["update t{id=1} {v='x'} {v=NULL}"])
    }

    @Test("P6: ROLLBACK TO, an aborted multi-row statement and a rolled-back transaction leave nothing")
    func rollbacks() async throws {
        struct Stop: Error {}
        let temporary = try await TemporaryStore(schema: Self.unique)
        let token = try await temporary.store.write { db in
            try db.execute("SAVEPOINT a; INSERT INTO t VALUES (1, 'a', 1); ROLLBACK TO a; RELEASE a")
            // The third row fails, the first two are taken back.
            expectError(SQLiteError.self) {
                try db.execute("INSERT INTO t VALUES (5, 'x', 1), (6, 'y', 1), (5, 'z', 1)")
            }
            expectError(Stop.self) {
                try db.savepoint {
                    try db.execute("INSERT INTO t VALUES (7, 'q', 1)")
                    throw Stop()
                }
            }
        }.token
        #expect(token == nil)
        await #expect(throws: Stop.self) {
            try await temporary.store.write { db in
                try db.execute("INSERT INTO t VALUES (1, 'a', 1)")
                throw Stop()
            }
        }
        #expect(try await temporary.sequences() == [1])
        #expect(try await temporary.store.read { try $0.rows("SELECT * FROM t") } == [])
    }

    @Test("OR FAIL keeps the rows before the failing one, OR IGNORE skips it")
    func failAndIgnore() async throws {
        let temporary = try await TemporaryStore(schema: Self.unique)
        try await temporary.store.write { db in
            expectError(SQLiteError.self) {
                try db.execute("INSERT OR FAIL INTO t VALUES (1, 'a', 1), (1, 'b', 1)")
            }
            try db.execute("INSERT OR IGNORE INTO t VALUES (1, 'c', 1), (2, 'd', 1)")
        }
        #expect(
            try await temporary.latestChanges().map(\.short) == [
                "insert t{id=1} - {id=1 u='a' v=1}", "insert t{id=2} - {id=2 u='d' v=1}",
            ])
    }

    @Test("an UPSERT is recorded as what it does: an insert or an update")
    func upsert() async throws {
        let sql = "INSERT INTO t VALUES (1, 'a', 9), (2, 'b', 9) ON CONFLICT(id) DO UPDATE SET v = excluded.v"
        #expect(
            try await changes(Self.unique, "INSERT INTO t VALUES (1, 'a', 1)", sql) == [
                "update t{id=1} {v=1} {v=9}", "insert t{id=2} - {id=2 u='b' v=9}",
            ])
    }

    @Test("a changed primary key is one update with the old and the new identity")
    func primaryKeyUpdate() async throws {
        let temporary = try await TemporaryStore(schema: Self.unique)
        try await temporary.write("INSERT INTO t VALUES (1, 'a', 1)")
        try await temporary.write("UPDATE t SET id = 5, v = 2")
        let change = try #require(try await temporary.store.transaction(3)?.changes.all().first)
        #expect(change.decoded().short == "update t{id=1} {id=1 v=1} {id=5 v=2}")
        #expect(change.objectID.key == ["id": 1])
        #expect(change.renamedObjectID?.key == ["id": 5])
    }

    @Test("composite keys, with and without rowid, come in the key's order", arguments: ["", " WITHOUT ROWID"])
    func compositeKeys(suffix: String) async throws {
        let schema = "CREATE TABLE t(v, a TEXT, b INTEGER, PRIMARY KEY (b, a))\(suffix)"
        #expect(
            try await changes(schema, "INSERT INTO t VALUES (1, 'x', 2)", "UPDATE t SET v = 3, a = 'y'; DELETE FROM t")
                == [
                    "update t{b=2 a='x'} {v=1 a='x'} {v=3 a='y'}", "delete t{b=2 a='y'} {v=3 a='y' b=2} -",
                ])
    }

    @Test("a NULL in a key has the whole row recorded, so that equal keys are told apart")
    func nullKeys() async throws {
        let schema = "CREATE TABLE t(k TEXT PRIMARY KEY, v, w)"
        #expect(
            try await changes(
                schema, "INSERT INTO t VALUES (NULL, 1, 1), (NULL, 2, 2)", "UPDATE t SET v = 9 WHERE w = 2") == [
                    "update t{k=NULL} {k=NULL v=2 w=2} {v=9}"
                ])
    }

    @Test("foreign-key cascades and SET NULL are recorded")
    func cascades() async throws {
        let schema = """
            CREATE TABLE p(id INTEGER PRIMARY KEY);
            CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p(id) ON DELETE CASCADE ON UPDATE CASCADE);
            CREATE TABLE n(id INTEGER PRIMARY KEY, p REFERENCES p(id) ON DELETE SET NULL)
            """
        let setup = "INSERT INTO p VALUES (1), (2); INSERT INTO c VALUES (10, 1); INSERT INTO n VALUES (20, 1)"
        let deleted = try await changes(schema, setup, "DELETE FROM p WHERE id = 1")
        #expect(
            deleted.sorted() == [
                "delete c{id=10} {id=10 p=1} -", "delete p{id=1} {id=1} -", "update n{id=20} {p=1} {p=NULL}",
            ])
        let moved = try await changes(
            schema, "INSERT INTO p VALUES (1); INSERT INTO c VALUES (10, 1)", "UPDATE p SET id = 3")
        #expect(moved.sorted() == ["update c{id=10} {p=1} {p=3}", "update p{id=1} {id=1} {id=3}"])
    }

    @Test("what user triggers do is recorded in order")
    func userTriggers() async throws {
        let schema = """
            CREATE TABLE t(id INTEGER PRIMARY KEY, v);
            CREATE TABLE l(id INTEGER PRIMARY KEY, v);
            CREATE TRIGGER x AFTER INSERT ON t BEGIN INSERT INTO l(v) VALUES (new.v); UPDATE t SET v = 0 WHERE id = new.id; END
            """
        #expect(
            try await changes(schema, "", "INSERT INTO t VALUES (1, 5)") == [
                "insert t{id=1} - {id=1 v=5}", "insert l{id=1} - {id=1 v=5}", "update t{id=1} {v=5} {v=0}",
            ])
    }

    @Test("P33: a user trigger that another process adds fires, and is recorded, in the next tracked write")
    func foreignTrigger() async throws {
        let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE l(id INTEGER PRIMARY KEY, v)"
        let temporary = try await TemporaryStore(schema: schema)
        try await temporary.write("INSERT INTO t VALUES (1, 5)")
        let other = try await SQLiteConnection.open(temporary.path)
        try await other.run { db in
            try db.execute("CREATE TRIGGER x AFTER INSERT ON t BEGIN INSERT INTO l(v) VALUES (new.v); END")
        }
        await other.close()
        try await temporary.write("INSERT INTO t VALUES (2, 6)")
        #expect(
            try await temporary.latestChanges().map(\.short) == [
                "insert t{id=2} - {id=2 v=6}", "insert l{id=1} - {id=1 v=6}",
            ])
    }

    @Test("generated columns are left out, wherever they can be declared", arguments: ["VIRTUAL", "STORED"])
    func generatedColumns(kind: String) async throws {
        let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, g AS (a || '!') \(kind), a TEXT, b REAL)"
        #expect(
            try await changes(
                schema, "INSERT INTO t(id, a, b) VALUES (1, 'x', 2)", "UPDATE t SET a = 'y'; DELETE FROM t") == [
                    "update t{id=1} {a='x'} {a='y'}", "delete t{id=1} {id=1 a='y' b=2.0} -",
                ])
    }

    @Test(
        "tables whose columns this SQLite reports wrongly are refused with the remedy",
        arguments: [
            "CREATE TABLE t(g AS (a + 1), id INTEGER PRIMARY KEY, a)",
            "CREATE TABLE t(id INTEGER PRIMARY KEY, g AS (a + 1), r REAL, a)",
            "CREATE TABLE t(a REAL, b INTEGER, PRIMARY KEY (b, a)) WITHOUT ROWID",
        ])
    func misreadTables(schema: String) async throws {
        let temporary = try await TemporaryStore(schema: schema, tracking: nil)
        let indexing = try PreupdateIndexing.current.get()
        guard indexing.rowidTable == .storage, indexing.misreadsKeyedTables else {
            // A library that numbers columns as the manual says tracks them all.
            #expect(try await temporary.store.track(.all)?.sequence == 1)
            return
        }
        let error = await #expect(throws: HistoryError.self) { try await temporary.store.track(.all) }
        #expect(error?.code == .untrackable)
        #expect(error?.message.contains("declare") == true)
    }

    @Test("two changes to one row, and insert then delete, are all there in order")
    func order() async throws {
        let sql =
            "INSERT INTO t VALUES (1, 'a', 1); UPDATE t SET v = 2; UPDATE t SET v = 1; DELETE FROM t; INSERT INTO t VALUES (1, 'b', 1)"
        #expect(
            try await changes(Self.unique, "", sql) == [
                "insert t{id=1} - {id=1 u='a' v=1}", "update t{id=1} {v=1} {v=2}", "update t{id=1} {v=2} {v=1}",
                "delete t{id=1} {id=1 u='a' v=1} -", "insert t{id=1} - {id=1 u='b' v=1}",
            ])
    }

    @Test("nested savepoints take back exactly what is inside them, across a spill", arguments: [40, 120, 256 * 1024])
    func savepoints(spillThreshold: Int) async throws {
        var options = HistoryStore.Options()
        options.spillThreshold = spillThreshold
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY)", options: options)
        try await temporary.write(
            """
            INSERT INTO t VALUES (1); SAVEPOINT a; INSERT INTO t VALUES (2); SAVEPOINT b; INSERT INTO t VALUES (3);
            WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 200) INSERT INTO t SELECT i FROM n;
            ROLLBACK TO b; INSERT INTO t VALUES (4); RELEASE b; SAVEPOINT c; INSERT INTO t VALUES (5); ROLLBACK TO c;
            ROLLBACK TO a; INSERT INTO t VALUES (6); SAVEPOINT d; INSERT INTO t VALUES (7); RELEASE d; RELEASE a
            """)
        let found = try await temporary.latestChanges().map { $0.key["id"] }
        #expect(found == [1, 6, 7])
        #expect(try await temporary.store.transaction(2)?.changeCount == 3)
    }

    @Test("DELETE without WHERE is recorded row by row")
    func truncatingDelete() async throws {
        let setup = "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)"
        #expect(
            try await changes(Self.unique, setup, "DELETE FROM t") == [
                "delete t{id=1} {id=1 u='a' v=1} -", "delete t{id=2} {id=2 u='b' v=2} -",
            ])
    }

    @Test("INSERT … SELECT from a table of the same shape is recorded")
    func insertSelect() async throws {
        let schema = "CREATE TABLE a(id INTEGER PRIMARY KEY, v); CREATE TABLE b(id INTEGER PRIMARY KEY, v)"
        #expect(
            try await changes(schema, "INSERT INTO a VALUES (1, 5), (2, 6)", "INSERT INTO b SELECT * FROM a") == [
                "insert b{id=1} - {id=1 v=5}", "insert b{id=2} - {id=2 v=6}",
            ])
    }

    @Test("writes through a blob are recorded once, old and new, also between other statements")
    func blobWrites() async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, b, w)")
        try await temporary.write("INSERT INTO t VALUES (1, x'00000000', 1), (2, 'abcd', 1)")
        try await temporary.store.write { db in
            try db.withBlob(table: "t", column: "b", rowID: 1, isWritable: true) { blob in
                try blob.write([1], at: 0)
                try blob.write([2], at: 1)
                try db.execute("UPDATE t SET w = 2 WHERE id = 2")
                try blob.write([3], at: 2)
            }
            try db.withBlob(table: "t", column: "b", rowID: 2, isWritable: true) {
                try $0.write(Array("X".utf8), at: 3)
            }
            try db.withBlob(table: "t", column: "b", rowID: 2, isWritable: true) {
                try $0.write(Array("X".utf8), at: 3)
            }
        }
        #expect(
            try await temporary.latestChanges().map(\.short) == [
                "update t{id=1} {b=x[0, 0, 0, 0]} {b=x[1, 2, 0, 0]}", "update t{id=2} {w=1} {w=2}",
                "update t{id=1} {b=x[1, 2, 0, 0]} {b=x[1, 2, 3, 0]}", "update t{id=2} {b='abcd'} {b='abcX'}",
            ])
    }

    @Test("TEMP tables, ANALYZE and shadow tables are not recorded")
    func untrackedKinds() async throws {
        let schema =
            "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE VIRTUAL TABLE f USING fts5(v); CREATE VIRTUAL TABLE r USING rtree(id, a, b)"
        let sql = """
            CREATE TEMP TABLE t2(id INTEGER PRIMARY KEY); INSERT INTO t2 VALUES (1);
            INSERT INTO f VALUES ('text'); INSERT INTO r VALUES (1, 0, 1); CREATE INDEX i ON t(v); ANALYZE
            """
        #expect(try await changes(schema, "", sql) == [])
    }

    @Test("a TEMP table that shadows a tracked one is not taken for it")
    func temporaryShadow() async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY)")
        let token = try await temporary.write("CREATE TEMP TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (9)")
        #expect(token == nil)
    }

    @Test("extreme values come back bit by bit")
    func extremeValues() async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v, r REAL)")
        let numbers: [SQLiteValue] = [
            .integer(.max), .integer(.min), .integer(0), .integer(1), .integer(-1), .integer(127), .integer(128),
            .integer(-128), .integer(-129), .integer(32767), .integer(32768), .integer(8_388_607), .integer(8_388_608),
            .integer(2_147_483_648), .integer(140_737_488_355_327), .integer(140_737_488_355_328), .real(.infinity),
            .real(-.infinity), .real(.leastNonzeroMagnitude), .real(.greatestFiniteMagnitude), .real(1), .text(""),
            .text("a\0b"), .malformedText([0xC3, 0x28, 0]), .blob([]), .blob([0]), .null,
        ]
        try await temporary.store.write { db in
            for number in numbers { try db.execute("INSERT INTO t(v, r) VALUES (?, 3)", number) }
        }
        let changes = try await temporary.latestChanges()
        #expect(changes.map { $0.after?["v"] } == numbers)
        #expect(changes.allSatisfy { $0.after?["r"] == .real(3) })
        #expect(try await temporary.store.read { try $0.rows("SELECT v FROM t ORDER BY id") } == numbers.map { [$0] })
    }

    @Test("a 10 MB blob is recorded, updated and deleted exactly")
    func largeBlob() async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, b)")
        let first = [UInt8](repeating: 7, count: 10_000_000)
        let second = [UInt8](repeating: 8, count: 10_000_000)
        try await temporary.store.write { try $0.execute("INSERT INTO t VALUES (1, ?)", first) }
        #expect(try await temporary.latestChanges().first?.after?["b"] == .blob(first))
        try await temporary.store.write { try $0.execute("UPDATE t SET b = ?", second) }
        let update = try #require(try await temporary.latestChanges().first)
        #expect(update.before?["b"] == .blob(first) && update.after?["b"] == .blob(second))
        try await temporary.write("DELETE FROM t")
        #expect(try await temporary.latestChanges().first?.before?["b"] == .blob(second))
    }

    @Test("a failed deferred foreign key at the commit leaves neither rows nor history, and the store usable")
    func deferredForeignKey() async throws {
        let schema = """
            CREATE TABLE p(id INTEGER PRIMARY KEY);
            CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p(id) DEFERRABLE INITIALLY DEFERRED)
            """
        let temporary = try await TemporaryStore(schema: schema)
        let error = await #expect(throws: HistoryError.self) {
            try await temporary.write("INSERT INTO c VALUES (1, 99)")
        }
        #expect(error?.code == .constraint)
        #expect(try await temporary.sequences() == [1])
        let token = try await temporary.write("INSERT INTO c VALUES (1, 5); INSERT INTO p VALUES (5)")
        #expect(token?.sequence == 2)
    }

    @Test("an error that ends the transaction ends the write, whatever the closure makes of it")
    func endedTransaction() async throws {
        let temporary = try await TemporaryStore(schema: Self.unique)
        await #expect(throws: (any Error).self) {
            try await temporary.store.write { db in
                try db.execute("INSERT INTO t VALUES (1, 'a', 1)")
                try? db.execute("INSERT OR ROLLBACK INTO t VALUES (1, 'b', 1)")
                try db.execute("INSERT INTO t VALUES (2, 'c', 1)")
            }
        }
        let swallowed = await #expect(throws: HistoryError.self) {
            try await temporary.store.write { db in
                try? db.execute("INSERT INTO t VALUES (1, 'a', 1); INSERT OR ROLLBACK INTO t VALUES (1, 'b', 1)")
            }
        }
        #expect(swallowed?.code == .rolledBack)
        #expect(try await temporary.store.read { try $0.rows("SELECT * FROM t") } == [])
        #expect(try await temporary.sequences() == [1])
        #expect(try await temporary.write("INSERT INTO t VALUES (1, 'a', 1)")?.sequence == 2)
    }

    @Test(
        "statements that would defeat the recording are refused",
        arguments: [
            "COMMIT", "ROLLBACK", "BEGIN", "END", "PRAGMA journal_mode = DELETE", "PRAGMA writable_schema = ON",
            "PRAGMA query_only = ON", "PRAGMA busy_timeout = 1",
            "DELETE FROM history_transaction", "UPDATE history_store SET epoch = 9", "DROP TABLE history_chunk",
            "INSERT INTO history_audit VALUES (1, 1, 'x', 'x', 1, 'x')", "CREATE TABLE history_own(id)",
            "ALTER TABLE history_store ADD COLUMN x",
            "CREATE TRIGGER x AFTER INSERT ON history_transaction BEGIN SELECT 1; END",
        ])
    func refusedStatements(sql: String) async throws {
        let temporary = try await TemporaryStore(schema: Self.unique)
        let error = await #expect(throws: SQLiteError.self) {
            try await temporary.store.write { db in
                try db.execute("INSERT INTO t VALUES (1, 'a', 1)")
                try db.execute(sql)
            }
        }
        #expect(error?.code == .notAuthorized)
        #expect(try await temporary.sequences() == [1])
    }

    @Test("a table cannot be renamed into the reserved prefix")
    func reservedRename() async throws {
        let temporary = try await TemporaryStore(schema: Self.unique)
        await #expect(throws: (any Error).self) { try await temporary.write("ALTER TABLE t RENAME TO history_t") }
        #expect(try await temporary.write("INSERT INTO t VALUES (1, 'a', 1)")?.sequence == 2)
    }

    @Test("a tracked store cannot be attached, another database can")
    func attach() async throws {
        let temporary = try await TemporaryStore(schema: Self.unique)
        let other = try await TemporaryStore(schema: Self.unique)
        let plain = temporary.directory.file("plain.db")
        let connection = try await SQLiteConnection.open(plain, options: OpenOptions(access: .create))
        try await connection.run { try $0.execute("CREATE TABLE t(id, u, v); INSERT INTO t VALUES (4, 'x', 1)") }
        await connection.close()
        let path = other.path
        let error = await #expect(throws: SQLiteError.self) {
            try await temporary.store.write { try $0.execute("ATTACH '\(path)' AS o") }
        }
        #expect(error?.code == .notAuthorized && error?.message.contains(path) == true)
        let token = try await temporary.write("ATTACH '\(plain)' AS o; INSERT INTO t SELECT * FROM o.t")
        #expect(token?.sequence == 2)
        #expect(try await temporary.latestChanges().map(\.short) == ["insert t{id=4} - {id=4 u='x' v=1}"])
    }
}
