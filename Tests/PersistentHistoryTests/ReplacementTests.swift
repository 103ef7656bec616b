import Foundation
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

/// A file that is put in the place of the one that a store has open.
@Suite("Replaced files", .timeLimit(.minutes(3)))
struct ReplacementTests {
    private static let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE u(id INTEGER PRIMARY KEY)"

    private static func store() async throws -> TemporaryStore {
        try await TemporaryStore(schema: schema, tracking: ["t"])
    }

    /// A copy of a database as it is now, in write-ahead mode or, as a backup may be, not.
    private static func copy(_ path: String, _ name: String, isLogged: Bool = false) async throws -> String {
        let connection = try await SQLiteConnection.open(path)
        let copy = Database.directory(of: path) + "/" + name
        try await connection.run { db in try db.execute("VACUUM INTO '\(copy)'") }
        await connection.close()
        if isLogged {
            await (try SQLiteConnection.open(copy)).close()
            for companion in Database.companions(of: copy) where Database.exists(companion) {
                try FileManager.default.removeItem(atPath: companion)
            }
        }
        return copy
    }

    /// Puts a file in the place of another, whose companions go.
    private static func put(_ file: String, inPlaceOf path: String) throws {
        for companion in Database.companions(of: path) where Database.exists(companion) {
            try FileManager.default.removeItem(atPath: companion)
        }
        try #require(rename(file, path) == 0)
    }

    private static func rows(_ store: HistoryStore) async throws -> Int {
        try await store.read { db in try db.first("SELECT count(*) FROM t", as: Int.self) ?? 0 }
    }

    private static func expectCode(
        _ code: HistoryError.Code, at location: SourceLocation = #_sourceLocation, _ body: () async throws -> Void
    ) async {
        do {
            try await body()
            Issue.record("no error was thrown", sourceLocation: location)
        } catch {
            #expect((error as? HistoryError)?.code == code, "\(error)", sourceLocation: location)
        }
    }

    @Test(
        "a reader sees the file that is there at once, a writer writes to it soon; tokens of the other are refused",
        arguments: [false, true])
    func olderCopy(isLogged: Bool) async throws {
        let temporary = try await Self.store()
        let store = temporary.store
        try await temporary.write("INSERT INTO t(v) VALUES (1)")
        let copy = try await Self.copy(temporary.path, "copy.db", isLogged: isLogged)
        let late = try #require(try await temporary.write("INSERT INTO t(v) VALUES (2)"))
        try Self.put(copy, inPlaceOf: temporary.path)
        #expect(try await Self.rows(store) == 1)
        await Self.expectCode(.tokenInvalid) { try await store.validate(late) }
        var token: HistoryToken?
        while try await Self.rows(store) < 2 { token = try await temporary.write("INSERT INTO t(v) VALUES (3)") }
        #expect(token?.sequence == late.sequence && token?.nonce != late.nonce)
        #expect(try await store.currentToken() == token)
    }

    @Test(
        "what changes the history's own tables, or what is tracked, never goes to a file that is gone",
        arguments: [false, true])
    func rareWrites(isLogged: Bool) async throws {
        let temporary = try await Self.store()
        for round in 0..<3 {
            let copy = try await Self.copy(temporary.path, "copy.db", isLogged: isLogged)
            // These have looked a moment ago.
            try await temporary.write("INSERT INTO t(v) VALUES (1)")
            try await temporary.write("INSERT INTO t(v) VALUES (2)")
            try Self.put(copy, inPlaceOf: temporary.path)
            if round == 0 {
                try await temporary.store.track(["u"])
            } else if round == 1 {
                try await temporary.store.untrack(["u"])
            } else {
                try await temporary.store.deleteHistory(before: .sequence(100))
            }
            let other = try await HistoryStore.openReadOnly(temporary.path)
            let info = try await other.info()
            #expect(info.entities.map(\.name) == (round == 0 ? ["t", "u"] : ["t"]))
            #expect(try await Self.rows(other) == 0)
            if round == 2 { #expect(try await other.transaction(1) == nil) }
            await other.close()
        }
    }

    @Test(
        "another store's file is refused and not touched, by readers, writers and snapshots, until the right one is back"
    )
    func anotherStore() async throws {
        let temporary = try await Self.store()
        try await temporary.write("INSERT INTO t(v) VALUES (1)")
        let stranger = try await Self.store()
        let right = try await Self.copy(temporary.path, "right.db")
        let wrong = try await Self.copy(stranger.path, "wrong.db")
        let content = try Data(contentsOf: URL(filePath: wrong))
        try Self.put(wrong, inPlaceOf: temporary.path)
        let store = temporary.store
        for _ in 0..<2 {
            await Self.expectCode(.storeReplaced) { _ = try await store.currentToken() }
            await Self.expectCode(.storeReplaced) { try await store.withSnapshot { _ in } }
            await Self.expectCode(.storeReplaced) { _ = try await store.track(["u"]) }
            await Self.expectCode(.storeReplaced) { _ = try await temporary.write("INSERT INTO t(v) VALUES (1)") }
        }
        #expect(try Data(contentsOf: URL(filePath: temporary.path)) == content)
        try Self.put(right, inPlaceOf: temporary.path)
        #expect(try await Self.rows(store) == 1)
        #expect(try await temporary.write("INSERT INTO t(v) VALUES (2)")?.sequence == 3)
        #expect(try await Self.rows(store) == 2)
    }

    @Test("another program's database in its place is refused and not touched")
    func anotherProgram() async throws {
        let temporary = try await Self.store()
        let right = try await Self.copy(temporary.path, "right.db")
        let wrong = temporary.directory.file("wrong.db")
        let options = OpenOptions(access: .create, usesWriteAheadLog: false)
        let connection = try await SQLiteConnection.open(wrong, options: options)
        try await connection.run { db in try db.execute("CREATE TABLE theirs(x)") }
        await connection.close()
        let content = try Data(contentsOf: URL(filePath: wrong))
        try Self.put(wrong, inPlaceOf: temporary.path)
        await Self.expectCode(.notAStore) { _ = try await temporary.store.currentToken() }
        await Self.expectCode(.notAStore) { try await temporary.store.withSnapshot { _ in } }
        await Self.expectCode(.notAStore) { _ = try await temporary.store.track(["u"]) }
        #expect(try Data(contentsOf: URL(filePath: temporary.path)) == content)
        #expect(Database.companions(of: temporary.path).allSatisfy { !Database.exists($0) })
        try Self.put(right, inPlaceOf: temporary.path)
        #expect(try await temporary.write("INSERT INTO t(v) VALUES (2)")?.sequence == 2)
    }

    @Test("a file that is gone and not replaced yet is missed, never made anew; once one is there all goes on")
    func gone() async throws {
        let temporary = try await Self.store()
        let copy = try await Self.copy(temporary.path, "copy.db")
        for file in [temporary.path] + Database.companions(of: temporary.path) {
            try FileManager.default.removeItem(atPath: file)
        }
        for _ in 0..<2 {
            await Self.expectCode(.cannotOpen) { _ = try await Self.rows(temporary.store) }
            await Self.expectCode(.cannotOpen) { try await temporary.store.withSnapshot { _ in } }
            await Self.expectCode(.cannotOpen) { _ = try await temporary.store.track(["u"]) }
        }
        #expect(!Database.exists(temporary.path))
        try Self.put(copy, inPlaceOf: temporary.path)
        #expect(try await temporary.write("INSERT INTO t(v) VALUES (1)")?.sequence == 2)
        #expect(try await Self.rows(temporary.store) == 1)
    }

    @Test("a snapshot may be the first to meet the file that is there", arguments: [false, true])
    func snapshot(isLogged: Bool) async throws {
        let temporary = try await Self.store()
        let copy = try await Self.copy(temporary.path, "copy.db", isLogged: isLogged)
        try await temporary.write("INSERT INTO t(v) VALUES (1)")
        let store = temporary.store
        let path = temporary.path
        try await store.withSnapshot { snapshot in
            // One that has begun is of the file that it began with.
            try Self.put(copy, inPlaceOf: path)
            let entity = try #require(snapshot.entities.first)
            var iterator = snapshot.rows(of: entity).makeAsyncIterator()
            #expect(try await iterator.next()?.count == 1)
        }
        let token = try await store.withSnapshot { snapshot in
            let entity = try #require(snapshot.entities.first)
            var iterator = snapshot.rows(of: entity).makeAsyncIterator()
            #expect(try await iterator.next() == nil)
            return snapshot.token
        }
        #expect(token.sequence == 1)
    }

    @Test("a reader alone waits for a writer to open the file that was put there, and creates nothing beside it")
    func readOnly() async throws {
        let temporary = try await Self.store()
        let reader = try await HistoryStore.openReadOnly(temporary.path)
        let copy = try await Self.copy(temporary.path, "copy.db")
        await temporary.store.close()
        try Self.put(copy, inPlaceOf: temporary.path)
        for _ in 0..<2 {
            await Self.expectCode(.storeUnavailable) { _ = try await reader.currentToken() }
            await Self.expectCode(.storeUnavailable) { try await reader.withSnapshot { _ in } }
        }
        #expect(Database.companions(of: temporary.path).allSatisfy { !Database.exists($0) })
        let writer = try await HistoryStore.open(temporary.path, author: "orders")
        try await writer.write { db in try db.execute("INSERT INTO t(v) VALUES (1)") }
        #expect(try await Self.rows(reader) == 1)
        await writer.close()
        // The log stays beside the file, whoever is the last to close it.
        #expect(try await Self.rows(reader) == 1)
        await reader.close()
        #expect(Database.companions(of: temporary.path).allSatisfy(Database.exists))
    }

    @Test("what another has written to the new file's log stays there when the old file is closed")
    func newLog() async throws {
        let temporary = try await Self.store()
        let copy = try await Self.copy(temporary.path, "copy.db")
        try await temporary.write("INSERT INTO t(v) VALUES ('old')")
        try Self.put(copy, inPlaceOf: temporary.path)
        let other = try await HistoryStore.open(temporary.path, author: "billing")
        for _ in 0..<5 { try await other.write { db in try db.execute("INSERT INTO t(v) VALUES ('new')") } }
        // The first one closes the old file, as the last to have it open.
        #expect(try await temporary.store.untrack(["t"])?.sequence == 7)
        #expect(try await Self.rows(temporary.store) == 5)
        #expect(try await Self.rows(other) == 5)
        await other.close()
        await temporary.store.close()
        #expect(Database.companions(of: temporary.path).allSatisfy(Database.exists))
        let again = try await HistoryStore.openReadOnly(temporary.path)
        #expect(try await Self.rows(again) == 5)
    }

    @Test("an older copy is restored over the open file: a layout's number that is given anew is the new layout's")
    func layoutNumbers() async throws {
        let temporary = try await Self.store()
        let store = temporary.store
        let head = try #require(try await temporary.write("INSERT INTO t(v) VALUES (1)"))
        // By another program: one that opens and closes the file here would drop the locks of all connections.
        let copy = temporary.directory.file("copy.db")
        func sqlite(_ command: String) async throws {
            let process = try await FinishedProcess.run("/usr/bin/sqlite3", [temporary.path, command])
            try #require(process.ending == .exited(0), "\(process.error)")
        }
        func lines() async throws -> [String] {
            var lines: [String] = []
            for try await transaction in store.history(HistoryRequest(after: head)) {
                lines += try await transaction.changes.all().map { $0.decoded().short }
            }
            return lines
        }
        try await sqlite(".backup '\(copy)'")
        try await store.migrate { db in
            try db.execute("ALTER TABLE t ADD COLUMN a; INSERT INTO t(v, a) VALUES (2, 'a')")
        }
        #expect(try await lines() == ["insert t{id=2} - {id=2 v=2 a='a'}"])
        try await sqlite(".restore '\(copy)'")
        #expect(try await lines() == [])
        try await store.migrate { db in
            try db.execute("ALTER TABLE t ADD COLUMN b; INSERT INTO t(v, b) VALUES (3, 'b')")
        }
        #expect(try await lines() == ["insert t{id=2} - {id=2 v=3 b='b'}"])
    }

    @Test("many replacements leave no descriptor behind")
    func descriptors() async throws {
        let temporary = try await Self.store()
        func count() throws -> Int {
            try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count { name in
                let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(name)")
                return target?.hasPrefix(temporary.path) ?? false
            }
        }
        try await temporary.write("INSERT INTO t(v) VALUES (0)")
        #expect(try await Self.rows(temporary.store) == 1)
        let before = try count()
        for round in 1...30 {
            let copy = try await Self.copy(temporary.path, "copy.db")
            try Self.put(copy, inPlaceOf: temporary.path)
            if round % 2 == 0 { #expect(try await Self.rows(temporary.store) == 1) }
            try await temporary.store.deleteHistory(before: .sequence(1))
            #expect(try await Self.rows(temporary.store) == 1)
        }
        #expect(try count() == before)
        #expect(try await temporary.write("INSERT INTO t(v) VALUES (1)")?.sequence == 3)
    }
}
