import Foundation
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("Attaching", .timeLimit(.minutes(2)))
struct AttachTests {
    private static let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, v)"

    private static func attach(_ name: String, to store: HistoryStore) async -> SQLiteError? {
        await #expect(throws: SQLiteError.self) {
            try await store.write { db in try db.execute("ATTACH '\(name)' AS o; INSERT INTO o.t VALUES (9, 9)") }
        }
    }

    @Test("a store whose log the sqlite3 shell has removed cannot be written to without history")
    func storeWithoutLog() async throws {
        let other = try await TemporaryStore(schema: Self.schema)
        await other.store.close()
        for suffix in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: other.path + suffix) }
        let temporary = try await TemporaryStore(schema: Self.schema)
        let error = await Self.attach(other.path, to: temporary.store)
        #expect(error?.code == .notAuthorized)
        #expect(error?.message.contains("\(other.path) is a Tidings store") == true, "\(error?.message ?? "")")
        let reopened = try await HistoryStore.open(other.path, author: "orders")
        #expect(try await reopened.read { db in try db.first("SELECT count(*) FROM t", as: Int.self) } == 0)
    }

    @Test("a store cannot be attached by a URI either", arguments: ["", "?nolock=1", "?mode=rw"])
    func uri(parameters: String) async throws {
        let other = try await TemporaryStore(schema: Self.schema)
        let temporary = try await TemporaryStore(schema: Self.schema)
        let error = await Self.attach("file:\(other.path)\(parameters)", to: temporary.store)
        #expect(error?.code == .notAuthorized && error?.message.contains("takes a path here and no URI") == true)
        #expect(try await other.store.read { db in try db.first("SELECT count(*) FROM t", as: Int.self) } == 0)
    }

    @Test("what is attached does not stay so: it could become a store behind this one's back")
    func detached() async throws {
        struct Stop: Error {}
        let temporary = try await TemporaryStore(schema: Self.schema)
        let plain = temporary.directory.file("plain.db")
        let connection = try await SQLiteConnection.open(plain, options: OpenOptions(access: .create))
        try await connection.run { db in try db.execute("CREATE TABLE t(id, v)") }
        await connection.close()
        try await temporary.write("ATTACH '\(plain)' AS \"o \"\"1\"; INSERT INTO \"o \"\"1\".t VALUES (1, 1)")
        await #expect(throws: Stop.self) {
            try await temporary.store.write { db in
                try db.execute("ATTACH '\(plain)' AS o")
                throw Stop()
            }
        }
        let attached = try await temporary.store.write { db in
            try db.rows("SELECT name FROM pragma_database_list WHERE name <> 'temp'")
        }
        #expect(attached.value == [["main"]])
    }

    @Test("a plain database in write-ahead mode without its log can be attached")
    func plainWithoutLog() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        let plain = temporary.directory.file("plain.db")
        let connection = try await SQLiteConnection.open(plain, options: OpenOptions(access: .create))
        try await connection.run { db in try db.execute("CREATE TABLE t(id, v); INSERT INTO t VALUES (1, 'a')") }
        await connection.close()
        for suffix in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: plain + suffix) }
        try await temporary.write("ATTACH '\(plain)' AS o; INSERT INTO t SELECT * FROM o.t")
        #expect(try await temporary.latestChanges().count == 1)
    }

    @Test("a path that looks like a URI is the name of a file")
    func pathLikeURI() async throws {
        let directory = try TemporaryDirectory()
        // Relative, since only a name's beginning makes a URI: a directory of that name must exist for it.
        let name = "file:\(directory.path)/x.db?mode=memory"
        let error = await #expect(throws: HistoryError.self) {
            try await HistoryStore.open(name, author: "orders", create: true)
        }
        #expect(error?.code == .cannotOpen && error?.message.contains("there is no directory") == true)
        #expect(!FileManager.default.fileExists(atPath: directory.file("x.db")))
    }
}
