import Foundation
import PersistentHistory
import Synchronization
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("Snapshots", .timeLimit(.minutes(1)))
struct SnapshotTests {
    /// Every row of an entity, read in pages, as text.
    private static func rows(
        _ entity: String, _ snapshot: HistorySnapshot, pageSize: Int = 1000
    ) async throws -> [String] {
        let entity = try #require(snapshot.entities.first { $0.name == entity })
        var all: [String] = []
        for try await page in snapshot.rows(of: entity, pageSize: pageSize) {
            #expect(!page.isEmpty && page.count <= pageSize)
            all += page.map { $0.map { "\($0.column)=\($0.value.short)" }.joined(separator: " ") }
        }
        return all
    }

    @Test("token and rows are of one moment, whatever another connection writes meanwhile")
    func oneMoment() async throws {
        let temporary = try await TemporaryStore(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE u(id INTEGER PRIMARY KEY, v)")
        try await temporary.write("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'); INSERT INTO u VALUES (1, 'x')")
        let head = try await temporary.store.currentToken()
        let other = try await HistoryStore.open(temporary.path, author: "billing")
        try await temporary.store.withSnapshot { snapshot in
            #expect(snapshot.token == head && snapshot.isWhole)
            #expect(snapshot.entities.map(\.name) == ["t", "u"])
            let entity = try #require(snapshot.entities.first)
            var iterator = snapshot.rows(of: entity, pageSize: 1).makeAsyncIterator()
            #expect(try await iterator.next()?.first?["v"] == "a")
            try await other.write { db in
                try db.execute("UPDATE t SET v = 'new'; DELETE FROM t WHERE id = 3; DELETE FROM u")
            }
            try await temporary.store.deleteHistory(before: .token(other.currentToken()))
            #expect(try await iterator.next()?.first?["v"] == "b")
            #expect(try await iterator.next()?.first?["v"] == "c")
            #expect(try await iterator.next() == nil)
            #expect(try await iterator.next() == nil)
            #expect(try await Self.rows("u", snapshot) == ["id=1 v='x'"])
        }
        try await temporary.store.withSnapshot { snapshot in
            #expect(snapshot.token.sequence == head.sequence + 1)
            let rows = try await Self.rows("t", snapshot)
            #expect(rows == ["id=1 v='new'", "id=2 v='new'"])
        }
        await other.close()
    }

    @Test("an entity tells columns, declared types and the key in its order")
    func description() async throws {
        let temporary = try await TemporaryStore(
            schema: "CREATE TABLE \"od\"\"d\"(a TEXT, b INTEGER, c, PRIMARY KEY (b, a)) WITHOUT ROWID")
        try await temporary.store.withSnapshot { snapshot in
            let entity = try #require(snapshot.entities.first)
            #expect(entity.name == "od\"d" && entity.columns == ["a", "b", "c"])
            #expect(entity.types == ["TEXT", "INTEGER", ""] && entity.keyColumns == ["b", "a"])
            #expect(try await Self.rows("od\"d", snapshot).isEmpty)
        }
    }

    @Test(
        "pages of every size hold each row once, under every kind of key", arguments: [1, 2, 3, 7, 1000],
        [
            "k INTEGER PRIMARY KEY, v|",
            "k TEXT COLLATE NOCASE PRIMARY KEY, v|",
            "k TEXT COLLATE NOCASE PRIMARY KEY, v| WITHOUT ROWID",
            "k BLOB PRIMARY KEY, v|",
            "k PRIMARY KEY, v|",
            "k PRIMARY KEY, v| WITHOUT ROWID",
            "k REAL, v, PRIMARY KEY (v, k)|",
            "v, k, PRIMARY KEY (v, k)| WITHOUT ROWID",
            "k, v, PRIMARY KEY (v DESC, k)| WITHOUT ROWID",
            "k, v, rowid TEXT DEFAULT 'r', PRIMARY KEY (k)|",
            "k, v, rowid DEFAULT 'r', _rowid_ DEFAULT 's', oid DEFAULT 't', PRIMARY KEY (k)|",
            "k TEXT PRIMARY KEY, v, g AS (v + 1), \"_rowid_\" DEFAULT 1|",
        ])
    func pages(_ pageSize: Int, _ definition: String) async throws {
        let parts = definition.split(separator: "|", omittingEmptySubsequences: false)
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(\(parts[0]))\(parts[1])")
        try await temporary.store.write { db in
            let values = [
                "NULL", "NULL", "NULL", "1", "2.5", "-7", "9223372036854775807", "'a'", "'A'", "'b'", "''", "'é'",
                "x''",
                "x'00'", "x'00ff'", "CAST(x'ff41' AS TEXT)", "'x' || char(0) || 'y'",
            ]
            // What a kind of key does not take is left out.
            for (index, value) in values.enumerated() {
                try? db.execute("INSERT INTO t(k, v) VALUES (\(value), \(index % 3))")
            }
        }
        let expected = try await temporary.store.read { db in
            try db.query("SELECT k, v FROM t") { "k=\($0.value(at: 0).short) v=\($0.value(at: 1).short)" }
        }
        #expect(expected.count >= 5)
        let found = try await temporary.store.withSnapshot { snapshot in
            var found: [String] = []
            for try await page in snapshot.rows(of: snapshot.entities[0], pageSize: pageSize) {
                #expect(page.count <= pageSize)
                found += page.map { "k=\(($0["k"] ?? .null).short) v=\(($0["v"] ?? .null).short)" }
            }
            return found
        }
        #expect(found.sorted() == expected.sorted())
    }

    @Test("excluded and redacted columns are not in it")
    func hiddenColumns() async throws {
        let temporary = try await TemporaryStore(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a, secret, big, b)",
            tracked: TrackingOptions(excludedColumns: ["big"], redactedColumns: ["secret"]))
        try await temporary.write("INSERT INTO t VALUES (1, 2, 3, 4, 5)")
        try await temporary.store.withSnapshot { snapshot in
            #expect(snapshot.entities.first?.columns == ["id", "a", "b"])
            let rows = try await Self.rows("t", snapshot)
            #expect(rows == ["id=1 a=2 b=5"])
        }
    }

    @Test("a snapshot of some entities holds these, whatever the case of their names, and no untracked ones")
    func someEntities() async throws {
        let temporary = try await TemporaryStore(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE TABLE u(id INTEGER PRIMARY KEY); "
                + "CREATE TABLE w(id INTEGER PRIMARY KEY)")
        try await temporary.store.untrack(["w"])
        try await temporary.store.withSnapshot(of: ["T", "w", "nowhere"]) { snapshot in
            #expect(snapshot.entities.map(\.name) == ["t"] && !snapshot.isWhole)
        }
        try await temporary.store.withSnapshot { #expect($0.entities.map(\.name) == ["t", "u"]) }
        try await temporary.store.withSnapshot(of: []) { #expect($0.entities.isEmpty && !$0.isWhole) }
    }

    @Test("of a store whose history is purged, or has never been, the token is the mark")
    func purged() async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY)", tracking: nil)
        let mark = try await temporary.store.oldestToken()
        #expect(try await temporary.store.withSnapshot { $0.token } == mark)
    }

    @Test("a page ends where its values pass a megabyte: large rows do not fill the memory")
    func boundedMemory() async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        let numbers = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 40)"
        try await temporary.write("\(numbers) INSERT INTO t SELECT i, zeroblob(200000) FROM n")
        let counts = try await temporary.store.withSnapshot { snapshot in
            var counts: [Int] = []
            for try await page in snapshot.rows(of: snapshot.entities[0]) { counts.append(page.count) }
            return counts
        }
        #expect(counts == [6, 6, 6, 6, 6, 6, 4])
    }

    @Test("a snapshot that outlives its closure says that it is closed; an error of the closure comes through")
    func closed() async throws {
        struct Refused: Error {}
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY)")
        try await temporary.write("INSERT INTO t VALUES (1), (2)")
        let kept = try await temporary.store.withSnapshot { $0 }
        do {
            _ = try await Self.rows("t", kept)
            Issue.record("the snapshot could be read")
        } catch let error as HistoryError {
            #expect(error.code == .closed)
        }
        await #expect(throws: Refused.self) { try await temporary.store.withSnapshot { _ in throw Refused() } }
    }

    @Test("where the files beside the store are missing a snapshot waits for a writer, and never creates them")
    func neverCreatesFiles() async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY)")
        let reading = try await HistoryStore.openReadOnly(temporary.path)
        await temporary.store.close()
        await reading.close()
        for missing in [["-wal"], ["-shm"], ["-wal", "-shm"]] {
            let writer = try await HistoryStore.open(temporary.path, author: "orders")
            await writer.close()
            for suffix in missing { try FileManager.default.removeItem(atPath: temporary.path + suffix) }
            await #expect("\(missing)") {
                try await reading.withSnapshot { _ in }
            } throws: { error in
                (error as? HistoryError)?.code == .storeUnavailable && (error as? HistoryError)?.isRetriable == true
            }
            for suffix in missing { #expect(!FileManager.default.fileExists(atPath: temporary.path + suffix)) }
        }
        let writer = try await HistoryStore.open(temporary.path, author: "orders")
        #expect(try await reading.withSnapshot { $0.entities.count } == 1)
        await writer.close()
    }
}
