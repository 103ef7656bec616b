import Foundation
import LocalContexts
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("Projection context", .timeLimit(.minutes(3)))
struct ProjectionTests {
    private static let schema = """
        CREATE TABLE article(id INTEGER PRIMARY KEY, title TEXT COLLATE NOCASE UNIQUE, author INTEGER REFERENCES author(id) ON UPDATE CASCADE);
        CREATE TABLE author(id INTEGER PRIMARY KEY, name TEXT NOT NULL);
        CREATE TABLE tag(a TEXT, b INTEGER, note, PRIMARY KEY (b, a)) WITHOUT ROWID;
        """

    private struct Fixture {
        let temporary: TemporaryStore
        let path: String
        let projection: ProjectionContext
        var store: HistoryStore { temporary.store }

        init(_ schema: String = ProjectionTests.schema, entities: Set<String>? = nil) async throws {
            temporary = try await TemporaryStore(schema: schema)
            path = temporary.directory.file("projection.db")
            projection = try ProjectionContext(path, entities: entities)
        }

        /// Merges what is new, and expects the projection to equal the store.
        func catchUp(at location: SourceLocation = #_sourceLocation) async throws {
            try await store.merge(into: projection, after: projection.durableToken())
            try await expectEqual(at: location)
        }

        func expectEqual(at location: SourceLocation = #_sourceLocation) async throws {
            let difference = try await ProjectionContext.difference(from: store, path: path)
            #expect(difference.isEmpty, "\(difference)", sourceLocation: location)
        }
    }

    @Test("tables appear with declared types and primary keys, without constraints, and rows follow")
    func following() async throws {
        let fixture = try await Fixture()
        #expect(fixture.projection.isDurable && fixture.projection.canLoad && fixture.projection.name == "projection")
        #expect(try await fixture.projection.durableToken() == nil)
        try await fixture.temporary.write(
            """
            INSERT INTO author VALUES (1, 'Ada'), (2, 'Bob');
            INSERT INTO article VALUES (10, 'One', 1), (11, 'Two', 2);
            INSERT INTO tag VALUES ('x', 1, 2.5), ('y', 1, x'00ff')
            """)
        try await fixture.catchUp()
        try await fixture.temporary.write(
            "UPDATE article SET title = 'ONE' WHERE id = 10; DELETE FROM tag WHERE a = 'x'; UPDATE author SET id = 7 WHERE id = 2"
        )
        try await fixture.catchUp()
        let definitions = try await rows(
            fixture.path, "SELECT sql FROM sqlite_schema WHERE name IN ('article', 'tag') ORDER BY name")
        #expect(
            definitions == [
                [#"CREATE TABLE "article"("id" INTEGER PRIMARY KEY, "title" TEXT, "author" INTEGER)"#],
                [#"CREATE TABLE "tag"("a" TEXT, "b" INTEGER, "note" , PRIMARY KEY ("b", "a"))"#],
            ])
        #expect(try await fixture.projection.durableToken() == (try await fixture.store.currentToken()))
    }

    @Test("rows that swap their keys, and keys that move on, arrive where they belong")
    func swaps() async throws {
        let fixture = try await Fixture()
        try await fixture.temporary.write("INSERT INTO author VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        try await fixture.catchUp()
        try await fixture.temporary.write(
            """
            UPDATE author SET id = -1 WHERE id = 1; UPDATE author SET id = 1 WHERE id = 2;
            UPDATE author SET id = 2 WHERE id = -1; UPDATE author SET id = id + 10
            """)
        let before = try await fixture.projection.durableToken()
        try await fixture.catchUp()
        try await fixture.store.merge(into: fixture.projection, after: before)
        try await fixture.store.merge(into: fixture.projection)
        try await fixture.expectEqual()
        let names = try await rows(fixture.path, "SELECT id, name FROM author ORDER BY id")
        #expect(names == [[11, "b"], [12, "a"], [13, "c"]])
    }

    @Test("a snapshot loads all in pages; what was there before is gone")
    func loading() async throws {
        let fixture = try await Fixture()
        let rows = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 3500)"
        try await fixture.temporary.write("\(rows) INSERT INTO author SELECT i, 'name ' || i FROM n")
        try await fixture.store.withSnapshot { try await fixture.projection.load($0) }
        try await fixture.expectEqual()
        #expect(try await fixture.projection.durableToken() == (try await fixture.store.currentToken()))
        try await fixture.temporary.write(
            "DELETE FROM author WHERE id > 10; UPDATE author SET name = 'new' WHERE id = 3")
        try await fixture.store.withSnapshot { try await fixture.projection.load($0) }
        try await fixture.expectEqual()
        try await fixture.catchUp()
    }

    @Test("a snapshot of one entity replaces it alone, and later merges leave out what it held already")
    func partialLoading() async throws {
        let fixture = try await Fixture()
        try await fixture.temporary.write(
            "INSERT INTO author VALUES (1, 'a'), (2, 'b'); INSERT INTO tag VALUES ('x', 1, 1)")
        try await fixture.catchUp()
        let before = try #require(try await fixture.projection.durableToken())
        // Renames whose repetition would take other rows along.
        try await fixture.temporary.write(
            "UPDATE author SET id = 9 WHERE id = 1; UPDATE author SET id = 1 WHERE id = 2")
        try await fixture.temporary.write("UPDATE author SET id = 2 WHERE id = 9; INSERT INTO tag VALUES ('y', 2, 2)")
        try await fixture.store.withSnapshot(of: ["AUTHOR"]) { try await fixture.projection.load($0) }
        #expect(try await fixture.projection.durableToken() == before)
        let tags = try await rows(fixture.path, "SELECT count(*) FROM tag")
        #expect(tags == [[1]])
        try await fixture.catchUp()
        try await fixture.temporary.write("INSERT INTO author VALUES (3, 'c')")
        try await fixture.catchUp()
    }

    @Test("only the entities asked for are kept, whatever the case of their names")
    func someEntities() async throws {
        let fixture = try await Fixture(entities: ["Author"])
        try await fixture.temporary.write("INSERT INTO author VALUES (1, 'a'); INSERT INTO tag VALUES ('x', 1, 1)")
        try await fixture.store.merge(into: fixture.projection)
        try await fixture.store.withSnapshot { try await fixture.projection.load($0) }
        let tables = try await rows(
            fixture.path, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'projection_%'")
        #expect(tables == [["author"]])
        let same = try await ProjectionContext.difference(from: fixture.store, path: fixture.path, entities: ["author"])
        #expect(same.isEmpty && same.entities["author"]?.rows == 1)
        let all = try await ProjectionContext.difference(from: fixture.store, path: fixture.path)
        #expect(all.entities["tag"]?.missing == 1)
    }

    @Test("columns come, go and change their names; tables are dropped, made anew and untracked")
    func schemaChanges() async throws {
        let fixture = try await Fixture("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b INTEGER)")
        func migrate(_ sql: String) async throws {
            try await fixture.store.migrate { db in try db.execute(sql) }
            try await fixture.catchUp()
        }
        try await fixture.temporary.write("INSERT INTO t VALUES (1, 'a', 2), (2, 'b', 3)")
        try await migrate("ALTER TABLE t ADD COLUMN c TEXT NOT NULL DEFAULT 'it''s'")
        try await migrate("ALTER TABLE t RENAME COLUMN a TO title")
        try await migrate("UPDATE t SET title = 'z' WHERE id = 1; ALTER TABLE t DROP COLUMN b; UPDATE t SET c = 'y'")
        try await migrate("ALTER TABLE t ADD COLUMN d DEFAULT 5; INSERT INTO t VALUES (3, 'q', 'r', 's')")
        try await migrate("DROP TABLE t; CREATE TABLE t(k TEXT PRIMARY KEY, v); INSERT INTO t VALUES ('one', 1)")
        try await fixture.store.migrate { db in try db.execute("CREATE TABLE u(id INTEGER PRIMARY KEY)") }
        try await fixture.store.track(["u"])
        try await fixture.temporary.write("INSERT INTO u VALUES (1)")
        try await fixture.catchUp()
        try await fixture.store.untrack(["t"])
        try await migrate("DROP TABLE u")
        let tables = try await rows(
            fixture.path, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'projection_%'")
        #expect(tables.isEmpty)
    }

    @Test("a column that another program dropped, with one added in its place, is no rename: the break says load anew")
    func foreignColumns() async throws {
        let fixture = try await Fixture("CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        try await fixture.temporary.write("INSERT INTO t VALUES (1, 'old')")
        try await fixture.catchUp()
        let other = try await SQLiteConnection.open(fixture.temporary.path)
        try await other.run { db in
            try db.execute("ALTER TABLE t DROP COLUMN v; ALTER TABLE t ADD COLUMN w DEFAULT 'new'")
        }
        await other.close()
        try await fixture.temporary.write("INSERT INTO t(id) VALUES (2)")
        let batch = try await fixture.store.batch(after: fixture.projection.durableToken())
        // As a consumer does.
        for transaction in batch.transactions {
            let broken = try await transaction.schemaChanges().filter { $0.kind == .captureBreak }
            guard !broken.isEmpty else { continue }
            let entities = Set(broken.map(\.entity))
            try await fixture.store.withSnapshot(of: entities) { try await fixture.projection.load($0) }
        }
        try await fixture.projection.merge(batch)
        try await fixture.expectEqual()
        #expect(try await rows(fixture.path, "SELECT w FROM t ORDER BY id") == [["new"], ["new"]])
    }

    @Test("excluded and redacted columns do not exist in the projection")
    func hiddenColumns() async throws {
        let temporary = try await TemporaryStore(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a, secret, big)",
            tracked: TrackingOptions(excludedColumns: ["big"], redactedColumns: ["secret"]))
        let path = temporary.directory.file("p.db")
        let projection = try ProjectionContext(path)
        try await temporary.write("INSERT INTO t VALUES (1, 2, 3, 4), (2, 3, 4, 5)")
        try await temporary.write("UPDATE t SET secret = 9; UPDATE t SET a = 7, secret = 8 WHERE id = 1")
        try await temporary.store.merge(into: projection)
        #expect(try await ProjectionContext.difference(from: temporary.store, path: path).isEmpty)
        #expect(try await rows(path, "SELECT * FROM t ORDER BY id") == [[1, 7], [2, 3]])
        try await temporary.store.withSnapshot { try await projection.load($0) }
        #expect(try await rows(path, "SELECT * FROM t ORDER BY id") == [[1, 7], [2, 3]])
    }

    @Test("keys that SQLite allows but nobody expects: NULL in many rows, anything under INTEGER, ANY in STRICT tables")
    func strangeKeys() async throws {
        let fixture = try await Fixture(
            """
            CREATE TABLE n(k TEXT PRIMARY KEY, v);
            CREATE TABLE w(k INTEGER PRIMARY KEY, v) WITHOUT ROWID;
            CREATE TABLE s(k ANY PRIMARY KEY, v ANY) STRICT;
            CREATE TABLE r(rowid TEXT PRIMARY KEY, _rowid_ TEXT, oid INTEGER);
            """)
        try await fixture.temporary.write(
            """
            INSERT INTO n VALUES (NULL, 1), (NULL, 1), (NULL, 2), ('a', 3);
            INSERT INTO w VALUES ('text', 1), (1, 2), (2.5, 3), (x'00', 4);
            INSERT INTO s VALUES ('12', '013'), (12, 13), (1.5, 'x');
            INSERT INTO r VALUES ('a', 'b', 1), ('c', 'd', 2);
            """)
        try await fixture.catchUp()
        try await fixture.temporary.write(
            """
            DELETE FROM n WHERE rowid = 1; UPDATE n SET v = 5 WHERE rowid = 2; UPDATE n SET k = NULL WHERE k = 'a';
            UPDATE w SET k = 'other' WHERE v = 2; UPDATE s SET k = 'k' WHERE v = '013'; DELETE FROM r WHERE oid = 1
            """)
        try await fixture.catchUp()
        try await fixture.store.withSnapshot { try await fixture.projection.load($0) }
        try await fixture.expectEqual()
    }

    @Test("a merge that fails leaves rows and token; a large transaction commits as one")
    func failedMerge() async throws {
        let fixture = try await Fixture("CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        try await fixture.catchUp()
        let before = try await fixture.projection.durableToken()
        let numbers = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
        try await fixture.temporary.write("\(numbers) INSERT INTO t SELECT i, printf('%.50c', 'x') FROM n")
        let batch = try await fixture.store.batch(after: before)
        await fixture.store.close()
        await expectCode(.closed) { try await fixture.projection.merge(batch) }
        #expect(try await fixture.projection.durableToken() == before)
        #expect(try await rows(fixture.path, "SELECT count(*) FROM t") == [[0]])
        let opened = try await HistoryStore.openReadOnly(fixture.temporary.path)
        try await opened.merge(into: fixture.projection, after: before)
        #expect(try await ProjectionContext.difference(from: opened, path: fixture.path).isEmpty)
        #expect(try await rows(fixture.path, "SELECT count(*) FROM t") == [[20000]])
    }

    @Test("a store, another program's database and a file that is no database are refused and stay as they are")
    func refused() async throws {
        let fixture = try await Fixture()
        await expectCode(.cannotOpen) { _ = try await ProjectionContext(fixture.temporary.path).durableToken() }
        let other = fixture.temporary.directory.file("other.db")
        let options = OpenOptions(access: .create, usesWriteAheadLog: false)
        let connection = try await SQLiteConnection.open(other, options: options)
        try await connection.run { db in try db.execute("CREATE TABLE theirs(x)") }
        await connection.close()
        let content = try Data(contentsOf: URL(filePath: other))
        await expectCode(.cannotOpen) { _ = try await ProjectionContext(other).durableToken() }
        #expect(try Data(contentsOf: URL(filePath: other)) == content)
        let text = fixture.temporary.directory.file("text.db")
        try String(repeating: "text ", count: 500).write(toFile: text, atomically: false, encoding: .utf8)
        await expectCode(.notADatabase) { _ = try await ProjectionContext(text).durableToken() }
        await expectCode(.cannotOpen) {
            _ = try await ProjectionContext.difference(from: fixture.store, path: fixture.temporary.path)
        }
    }

    @Test("history of another store or epoch is refused: the projection has to be loaded anew")
    func lineage() async throws {
        let fixture = try await Fixture()
        try await fixture.catchUp()
        let other = try await Fixture()
        let batch = try await other.store.batch()
        await expectCode(.tokenInvalid) { try await fixture.projection.merge(batch) }
        let token = try #require(try await fixture.projection.durableToken())
        let later = HistoryToken(storeID: token.storeID, epoch: 2, sequence: token.sequence + 1, nonce: 1)
        await expectCode(.tokenInvalid) { try await fixture.projection.merge(HistoryBatch([], through: later)) }
        let forged = HistoryToken(storeID: token.storeID, epoch: 1, sequence: token.sequence, nonce: ~token.nonce)
        await expectCode(.tokenInvalid) { try await fixture.projection.merge(HistoryBatch([], through: forged)) }
        try await other.store.withSnapshot { try await fixture.projection.load($0) }
        try await other.store.merge(into: fixture.projection)
        #expect(try await ProjectionContext.difference(from: other.store, path: fixture.path).isEmpty)
    }

    @Test("a comparison counts what is missing, extra and different, and refuses other tokens")
    func comparison() async throws {
        let fixture = try await Fixture()
        try await fixture.temporary.write("INSERT INTO author VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
        try await fixture.catchUp()
        let connection = try await SQLiteConnection.open(fixture.path)
        try await connection.run { db in
            try db.execute(
                """
                DELETE FROM author WHERE id = 1; INSERT INTO author VALUES (8, 'x'), (9, 'y');
                UPDATE author SET name = 'é' WHERE id = 2
                """)
        }
        await connection.close()
        let difference = try await ProjectionContext.difference(from: fixture.store, path: fixture.path)
        let counts = try #require(difference.entities["author"])
        #expect(counts.rows == 4 && counts.missing == 1 && counts.extra == 2 && counts.different == 1)
        #expect(!difference.isEmpty && difference.entities["tag"]?.isEmpty == true)
        try await fixture.temporary.write("INSERT INTO author VALUES (5, 'e')")
        await expectCode(.invalidRequest) {
            _ = try await ProjectionContext.difference(from: fixture.store, path: fixture.path)
        }
    }
}
