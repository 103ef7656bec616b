import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

/// Tables that change while they are tracked, by this store and by others; and tables that cannot be tracked.
@Suite("Schema changes", .timeLimit(.minutes(2)))
struct SchemaChangeTests {
    private static let unique = "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE, v)"

    @Test("the old value of an added column is its default, not the NULL that SQLite reports")
    func addedColumn() async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        try await temporary.write("INSERT INTO t VALUES (1, 1), (2, 1), (3, 1)")
        try await temporary.store.migrate { db in
            try db.execute(
                "ALTER TABLE t ADD COLUMN n TEXT DEFAULT 7; ALTER TABLE t ADD COLUMN m REAL NOT NULL DEFAULT 2")
        }
        #expect(try await temporary.store.transaction(3)?.schemaChanges().map(\.kind) == [.alter, .alter])
        try await temporary.write(
            "UPDATE t SET n = 'x' WHERE id = 1; UPDATE t SET n = NULL WHERE id = 2; DELETE FROM t WHERE id = 3")
        #expect(
            try await temporary.latestChanges().map(\.short) == [
                "update t{id=1} {n='7'} {n='x'}", "update t{id=2} {n='7'} {n=NULL}",
                "delete t{id=3} {id=3 v=1 n='7' m=2.0} -",
            ])
        try await temporary.write("UPDATE t SET n = 'y' WHERE id = 2")
        #expect(try await temporary.latestChanges().map(\.short) == ["update t{id=2} {n=NULL} {n='y'}"])
    }

    @Test("a table without a declared primary key is refused with the remedy, a view and a virtual table too")
    func untrackable() async throws {
        let schema =
            "CREATE TABLE a(id INTEGER PRIMARY KEY); CREATE TABLE b(v); CREATE VIEW w AS SELECT 1; CREATE VIRTUAL TABLE f USING fts5(v)"
        let temporary = try await TemporaryStore(schema: schema, tracking: nil)
        for (tables, code, word) in [
            (["a", "b"], HistoryError.Code.untrackable, "primary key"), (["w"], .untrackable, "view"),
            (["f"], .untrackable, "virtual"), (["nope"], .noSuchEntity, "nope"),
            (["history_store"], .untrackable, "reserved"),
        ] {
            let error = await #expect(throws: HistoryError.self) { try await temporary.store.track(.named(tables)) }
            #expect(error?.code == code && error?.message.contains(word) == true, "\(tables)")
        }
        #expect(try await temporary.write("INSERT INTO a VALUES (1)") == nil)
    }

    @Test("a table rebuilt by the recommended procedure stays tracked, a dropped one is recorded as dropped")
    func rebuildAndDrop() async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        try await temporary.write("INSERT INTO t VALUES (1, 'a')")
        try await temporary.write(
            """
            CREATE TABLE new_t(id INTEGER PRIMARY KEY, w TEXT, v); INSERT INTO new_t SELECT id, 'w', v FROM t;
            DROP TABLE t; ALTER TABLE new_t RENAME TO t; INSERT INTO t VALUES (2, 'w2', 'b')
            """)
        let rebuilt = try #require(try await temporary.store.transaction(3))
        #expect(try await rebuilt.schemaChanges().map(\.kind) == [.rebuild])
        #expect(
            try await rebuilt.changes.all().map { $0.decoded().short } == ["insert t{id=2} - {id=2 w='w2' v='b'}"]
        )
        try await temporary.write("DROP TABLE t")
        #expect(try await temporary.store.transaction(4)?.schemaChanges().map(\.kind) == [.drop])
        #expect(
            try await temporary.transactions()[1].changes.all().map { $0.decoded().short } == [
                "insert t{id=1} - {id=1 v='a'}"
            ])
    }

    @Test("DDL that is rolled back leaves the layout as it was")
    func rolledBackSchemaChange() async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        try await temporary.write(
            "SAVEPOINT a; ALTER TABLE t ADD COLUMN n; INSERT INTO t VALUES (1, 1, 1); ROLLBACK TO a; INSERT INTO t VALUES (2, 2)"
        )
        #expect(try await temporary.latestChanges().map(\.short) == ["insert t{id=2} - {id=2 v=2}"])
        struct Stop: Error {}
        await #expect(throws: Stop.self) {
            try await temporary.store.migrate { db in
                try db.execute("ALTER TABLE t ADD COLUMN m")
                throw Stop()
            }
        }
        try await temporary.write("INSERT INTO t VALUES (3, 3)")
        #expect(try await temporary.latestChanges().map(\.short) == ["insert t{id=3} - {id=3 v=3}"])
    }

    @Test("a tracked table cannot be renamed away from its history unnoticed")
    func renamedTable() async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        await #expect(throws: (any Error).self) {
            try await temporary.write("ALTER TABLE t RENAME TO t2; INSERT INTO t2 VALUES (1, 1)")
        }
        #expect(try await temporary.write("INSERT INTO t VALUES (1, 1)")?.sequence == 2)
        try await temporary.store.untrack(["t"])
        try await temporary.write("ALTER TABLE t RENAME TO t2")
        #expect(try await temporary.store.track(["t2"])?.sequence == 4)
        #expect(try await temporary.write("UPDATE t2 SET v = 2")?.sequence == 5)
    }

    @Test("a rolled-back DROP as the last thing in a transaction ends no tracking, and the next write is recorded")
    func rolledBackDrop() async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        #expect(try await temporary.write("SAVEPOINT s; DROP TABLE t; ROLLBACK TO s") == nil)
        #expect(
            try await temporary.write("SAVEPOINT s; DROP TABLE t; ROLLBACK TO s; INSERT INTO t VALUES (1, 1)")?.sequence
                == 2)
        #expect(try await temporary.store.transaction(2)?.schemaChanges() == [])
        struct Stop: Error {}
        await #expect(throws: Stop.self) {
            try await temporary.store.write { db in
                try db.execute("DROP TABLE t")
                throw Stop()
            }
        }
        #expect(try await temporary.write("INSERT INTO t VALUES (2, 1)")?.sequence == 3)
        #expect(try await temporary.store.transaction(3)?.schemaChanges() == [])
    }

    @Test("schema changes of others that a purge finds are recorded behind its mark")
    func foreignChangeBeforePurge() async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        try await temporary.write("INSERT INTO t VALUES (1, 1)")
        let other = try await SQLiteConnection.open(temporary.path)
        try await other.run { try $0.execute("ALTER TABLE t ADD COLUMN x") }
        await other.close()
        #expect(try await temporary.store.deleteHistory(before: .sequence(100)) == 2)
        #expect(try await temporary.sequences() == [3])
        #expect(try await temporary.store.transaction(3)?.schemaChanges().map(\.kind) == [.alter, .captureBreak])
    }

    @Test("columns that another program has changed are a break too: nobody knows whether one was renamed")
    func foreignColumns() async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        try await temporary.write("INSERT INTO t VALUES (1, 'a')")
        for (sql, columns) in [
            ("ALTER TABLE t DROP COLUMN v; ALTER TABLE t ADD COLUMN w", ["id", "w"]),
            ("ALTER TABLE t RENAME COLUMN w TO x", ["id", "x"]), ("ALTER TABLE t ADD COLUMN y", ["id", "x", "y"]),
        ] {
            let other = try await SQLiteConnection.open(temporary.path)
            try await other.run { try $0.execute(sql) }
            await other.close()
            let token = try #require(try await temporary.write("INSERT INTO t(id) SELECT max(id) + 1 FROM t"))
            let found = try #require(try await temporary.store.transaction(token.sequence))
            let changes = try await found.schemaChanges()
            #expect(changes.map(\.kind) == [.alter, .captureBreak] && changes.map(\.entity) == ["t", "t"])
            #expect(changes.map(\.columns) == [columns, columns])
            #expect(changes.first?.detail == "")
            #expect(changes.last?.detail.contains("another program") == true)
        }
        // What runs through a store is told statement by statement; another store of the same file takes it from there.
        let second = try await HistoryStore.open(temporary.path, author: "billing")
        try await second.migrate { db in
            try db.execute(
                "ALTER TABLE t RENAME COLUMN x TO z; ALTER TABLE t DROP COLUMN z; ALTER TABLE t ADD COLUMN q")
        }
        await second.close()
        try await temporary.write("DELETE FROM t")
        let kinds = try await Array(temporary.transactions().suffix(2)).schemaKinds()
        #expect(kinds == [[.alter, .alter, .alter], []])
    }

    @Test("TEMP objects cannot take the place of Tidings' own tables")
    func temporaryHistoryTables() async throws {
        let temporary = try await TemporaryStore(schema: Self.unique)
        for sql in [
            "CREATE TEMP TABLE history_transaction(a)", "CREATE TEMP VIEW history_capture AS SELECT 1",
            "CREATE TEMP TABLE x(a); ALTER TABLE x RENAME TO history_store",
        ] {
            await #expect(throws: (any Error).self) { try await temporary.write(sql) }
        }
        #expect(try await temporary.write("INSERT INTO t VALUES (1, 'a', 1)")?.sequence == 2)
        #expect(try await temporary.sequences() == [1, 2])
    }

    @Test(
        "defaults of every legal form are understood",
        arguments: [
            ("TEXT DEFAULT \"new\"", SQLiteValue.text("new")), ("DEFAULT new", "new"), ("DEFAULT (1 -- c\n)", 1),
            ("TEXT DEFAULT 7", "7"), ("DEFAULT -5", -5), ("REAL DEFAULT 2", 2.0),
        ])
    func defaultForms(definition: String, expected: SQLiteValue) async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY)")
        try await temporary.write("INSERT INTO t VALUES (1)")
        try await temporary.write("ALTER TABLE t ADD COLUMN c \(definition)")
        try await temporary.write("DELETE FROM t")
        #expect(try await temporary.latestChanges().first?.before?["c"] == expected)
    }

    @Test("a renamed redacted column is refused, and by somebody else ends the tracking with a visible break")
    func renamedRedactedColumn() async throws {
        let options = TrackingOptions(redactedColumns: ["secret"])
        let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, secret TEXT, v)"
        let temporary = try await TemporaryStore(schema: schema, tracked: options)
        await #expect(throws: (any Error).self) { try await temporary.write("ALTER TABLE t RENAME secret TO open") }
        #expect(try await temporary.write("INSERT INTO t VALUES (1, 's', 1)")?.sequence == 2)
        let other = try await SQLiteConnection.open(temporary.path)
        try await other.run { try $0.execute("ALTER TABLE t RENAME secret TO open") }
        await other.close()
        try await temporary.write("INSERT INTO t VALUES (2, 'hidden', 1)")
        let latest = try #require(try await temporary.store.transaction(3))
        #expect(try await latest.schemaChanges().map(\.kind) == [.captureBreak])
        #expect(try await latest.schemaChanges().first?.detail.contains("secret") == true)
        #expect(latest.changeCount == 0)
        // Dropping it is fine: nothing can come out under another name.
        let second = try await TemporaryStore(schema: schema, tracked: options)
        #expect(try await second.write("ALTER TABLE t DROP COLUMN secret")?.sequence == 2)
    }

    @Test("a table that somebody else makes untrackable ends its tracking with a break; other writes go on")
    func foreignObstacle() async throws {
        let temporary = try await TemporaryStore(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE u(id INTEGER PRIMARY KEY)")
        let other = try await SQLiteConnection.open(temporary.path)
        try await other.run { try $0.execute("DROP TABLE t; CREATE TABLE t(v)") }
        await other.close()
        try await temporary.write("INSERT INTO t VALUES (1); INSERT INTO u VALUES (1)")
        let latest = try #require(try await temporary.store.transaction(2))
        #expect(try await latest.schemaChanges().map(\.kind) == [.captureBreak])
        #expect(try await latest.changes.all().map(\.entity) == ["u"])
        #expect(try await temporary.write("INSERT INTO u VALUES (2)")?.sequence == 3)
    }

    @Test("an error that rolled back DDL leaves nothing of it behind, even where the closure swallows it")
    func endedSchemaChange() async throws {
        let temporary = try await TemporaryStore(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE u(id UNIQUE)", tracking: ["t"])
        await #expect(throws: (any Error).self) {
            try await temporary.store.write { db in
                try db.execute("DROP TABLE t; INSERT INTO u VALUES (1)")
                try? db.execute("INSERT OR ROLLBACK INTO u VALUES (1)")
            }
        }
        #expect(try await temporary.write("INSERT INTO t VALUES (1, 1)")?.sequence == 2)
        #expect(try await temporary.store.info().entities.map(\.name) == ["t"])
    }

    @Test("another process that starts tracking a table is noticed by the next write")
    func trackedElsewhere() async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY)", tracking: nil)
        #expect(try await temporary.write("INSERT INTO t VALUES (1)") == nil)
        let other = try await HistoryStore.open(temporary.path, author: "ops")
        try await other.track(["t"])
        await other.close()
        #expect(try await temporary.write("INSERT INTO t VALUES (2)")?.sequence == 2)
    }
}

extension [HistoryTransaction] {
    /// What each tells of tables themselves.
    fileprivate func schemaKinds() async throws -> [[HistorySchemaChange.Kind]] {
        var kinds: [[HistorySchemaChange.Kind]] = []
        for transaction in self { kinds.append(try await transaction.schemaChanges().map(\.kind)) }
        return kinds
    }
}
