import Foundation
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("Recording", .timeLimit(.minutes(2)))
struct RecordingTests {
    private static let schema = "CREATE TABLE article(id INTEGER PRIMARY KEY, title TEXT, views INTEGER)"

    @Test("PHT1: without tracking a write yields no token and no history, with it both; twice is harmless")
    func trackingIsASwitch() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema, tracking: nil)
        let untracked = try await temporary.write("INSERT INTO article(title) VALUES ('a')")
        #expect(untracked == nil)
        #expect(try await temporary.sequences() == [])

        let first = try await temporary.store.track(["article"])
        let again = try await temporary.store.track(.all)
        #expect(first?.sequence == 1)
        #expect(again == nil)
        let token = try #require(try await temporary.write("INSERT INTO article(title) VALUES ('b')"))
        #expect(token.sequence == 2)
        #expect(try await temporary.sequences() == [1, 2])
        #expect(try await temporary.store.transaction(1)?.schemaChanges().map(\.kind) == [.track])
        #expect(try await temporary.store.currentToken() == token)
    }

    @Test("PHT1: after untracking nothing is recorded, and old history stays readable")
    func untracking() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        try await temporary.write("INSERT INTO article(title) VALUES ('a')")
        let end = try await temporary.store.untrack(["article"])
        #expect(end?.sequence == 3)
        #expect(try await temporary.write("INSERT INTO article(title) VALUES ('b')") == nil)
        let kept = try await temporary.transactions()
        #expect(try await kept[1].changes.all().map { $0.decoded().after?["title"] } == [.text("a")])
        #expect(try await kept[2].schemaChanges().map(\.kind) == [.untrack])
        await #expect(throws: HistoryError.self) { try await temporary.store.untrack(["article"]) }
    }

    @Test("PHT2: a transaction carries token, author, context, process, time, store and changes")
    func transactionParts() async throws {
        let clock = TestClock(microseconds: 1_800_000_000_123_456)
        var options = HistoryStore.Options()
        options.clock = clock
        let temporary = try await TemporaryStore(schema: Self.schema, options: options)
        let token = try #require(
            try await temporary.write("INSERT INTO article(title) VALUES ('a')", context: "import"))
        let transaction = try #require(try await temporary.store.transaction(2))
        #expect(transaction.token == token)
        #expect(transaction.author == "orders")
        #expect(transaction.contextName == "import")
        #expect(transaction.origin == temporary.store.origin)
        #expect(transaction.origin.processID == Int(ProcessInfo.processInfo.processIdentifier))
        #expect(transaction.microseconds == 1_800_000_000_123_456)
        #expect(transaction.token.storeID == temporary.store.storeID)
        #expect(transaction.token.epoch == 1)
        #expect(transaction.entities == ["article"])
        #expect(transaction.changeCount == 1)
    }

    @Test("PHT3: changes carry identity, operation, changed columns, before and after, tombstone")
    func changeParts() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        try await temporary.store.write { db in
            try db.execute("INSERT INTO article VALUES (7, 'a', 1)")
            try db.execute("UPDATE article SET title = 'b', views = 1 WHERE id = 7")
            try db.execute("DELETE FROM article WHERE id = 7")
        }
        let changes = try await temporary.store.transaction(2)?.changes.all() ?? []
        #expect(changes.map(\.operation) == [.insert, .update, .delete])
        #expect(changes.map(\.entity) == ["article", "article", "article"])
        #expect(changes[0].before == nil)
        #expect(changes[0].after == ["id": 7, "title": "a", "views": 1])
        #expect(changes[0].changedColumns == [])
        #expect(changes[1].changedColumns == ["title"])
        #expect(changes[1].before == ["title": "a"])
        #expect(changes[1].after == ["title": "b"])
        #expect(changes[1].tombstone == nil)
        #expect(changes[2].tombstone == ["id": 7, "title": "b", "views": 1])
        #expect(changes[2].after == nil)
        let id = changes[1].objectID
        #expect(id.key == ["id": 7])
        #expect(id.url == "tidings://\(temporary.store.storeID.uuidString.lowercased())/article/id=i7")
    }

    @Test(
        "PHT3: an object's URL round-trips for every kind of key",
        arguments: [HistoryValues]([
            ["id": .integer(Int64.min)], ["id": .text("a/b c=ü&?\0%")], ["id": .blob([0, 255, 16])], ["id": .null],
            ["id": .real(.infinity)], ["id": .real(-0.1)], ["id": .malformedText([0xFF, 0x41])],
            ["a b": .integer(1), "ü": .text("")],
        ]))
    func objectURL(key: HistoryValues) throws {
        let id = HistoryObjectID(storeID: UUID(), entity: "odd name/é", key: key)
        let read = try #require(HistoryObjectID(url: id.url))
        #expect(read == id)
        #expect(id.url.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F })
    }

    @Test(
        "PHT3: what is no object URL is none",
        arguments: [
            "", "tidings://", "http://x/y/id=i1", "tidings://no-uuid/article/id=i1",
            "tidings://7E1CF5D6-1E42-4A24-8A2C-1A8A22C4A111/article",
            "tidings://7E1CF5D6-1E42-4A24-8A2C-1A8A22C4A111//id=i1",
            "tidings://7E1CF5D6-1E42-4A24-8A2C-1A8A22C4A111/a/id",
            "tidings://7E1CF5D6-1E42-4A24-8A2C-1A8A22C4A111/a/id=q1",
            "tidings://7E1CF5D6-1E42-4A24-8A2C-1A8A22C4A111/a/id=x0",
            "tidings://7E1CF5D6-1E42-4A24-8A2C-1A8A22C4A111/a/id=t%4",
        ])
    func badObjectURL(url: String) { #expect(HistoryObjectID(url: url) == nil) }

    @Test("PHT11: tombstones keep their typed values")
    func tombstones() async throws {
        let schema = "CREATE TABLE kinds(id INTEGER PRIMARY KEY, i, r, t, b, n, u, d)"
        let temporary = try await TemporaryStore(schema: schema)
        let uuid = try #require(UUID(uuidString: "7E1CF5D6-1E42-4A24-8A2C-1A8A22C4A111"))
        let date = Date(microsecondsSince1970: 1_796_011_587_123_456)
        try await temporary.store.write { db in
            try db.execute(
                "INSERT INTO kinds VALUES (1, ?, ?, ?, ?, ?, ?, ?)", Int64.max, 0.1, "té\0xt", [0, 255] as [UInt8],
                nil as String?, uuid, date)
        }
        try await temporary.write("DELETE FROM kinds")
        let tombstone = try #require(try await temporary.latestChanges().first?.before)
        #expect(
            tombstone == [
                "id": 1, "i": .integer(.max), "r": 0.1, "t": "té\0xt", "b": .blob([0, 255]), "n": nil,
                "u": "7E1CF5D6-1E42-4A24-8A2C-1A8A22C4A111", "d": "2026-11-30T04:06:27.123456Z",
            ])
        guard case .text(let text) = tombstone["d"] else { throw HistoryError(.database, "no text") }
        #expect(RFC3339.microseconds(text) == date.microsecondsSince1970)
    }

    @Test(
        "PHT13: an empty author is refused",
        arguments: ["", " ", "\n\t", "a\u{0}b", String(repeating: "x", count: 129)])
    func emptyAuthor(author: String) async throws {
        let directory = try TemporaryDirectory()
        let error = await #expect(throws: HistoryError.self) {
            try await HistoryStore.open(directory.file("s.db"), author: author, create: true)
        }
        #expect(error?.code == .invalidAuthor)
        #expect(!FileManager.default.fileExists(atPath: directory.file("s.db")))
    }

    @Test(
        "the author of Tidings' own transactions is nobody else's", arguments: ["tidings", "tidings/", "tidings/track"])
    func reservedAuthor(author: String) async throws {
        let directory = try TemporaryDirectory()
        let path = directory.file("s.db")
        let error = await #expect(throws: HistoryError.self) {
            try await HistoryStore.open(path, author: author, create: true)
        }
        #expect(error?.code == .invalidAuthor && error?.message.contains(author) == true)
        #expect(!FileManager.default.fileExists(atPath: path))
        for name in ["tidings-import", "my/tidings"] {
            await (try HistoryStore.open(path, author: name, create: true)).close()
        }
        #expect(try await HistoryStore.openAsOperator(path).author == "tidings")
    }

    @Test("an update that changes nothing is no change and gives no token")
    func noChange() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        try await temporary.write("INSERT INTO article VALUES (1, 'a', 1)")
        #expect(try await temporary.write("UPDATE article SET title = 'a', views = views") == nil)
        #expect(try await temporary.write("DELETE FROM article WHERE id = 2") == nil)
        #expect(try await temporary.sequences() == [1, 2])
    }

    @Test("excluded columns never enter the history, of redacted ones only the fact of a change does")
    func excludedAndRedacted() async throws {
        let schema = "CREATE TABLE user(id INTEGER PRIMARY KEY, name TEXT, password TEXT, cache TEXT, note TEXT)"
        let options = TrackingOptions(
            preservedColumns: ["name", "password"], excludedColumns: ["cache"], redactedColumns: ["password"])
        let temporary = try await TemporaryStore(schema: schema, tracked: options)
        try await temporary.write("INSERT INTO user VALUES (1, 'n', 'secret-1', 'cached-1', 'x')")
        let insert = try #require(try await temporary.latestChanges().first)
        #expect(insert.after == ["id": 1, "name": "n", "note": "x"])
        #expect(insert.redacted == ["password"])
        #expect(try await temporary.write("UPDATE user SET cache = 'cached-2'") == nil)
        try await temporary.write("UPDATE user SET password = 'secret-2'")
        let update = try #require(try await temporary.latestChanges().first)
        #expect(update.changed == ["password"] && update.redacted == ["password"])
        #expect(update.before == [:] && update.after == [:])
        try await temporary.write("DELETE FROM user")
        let delete = try #require(try await temporary.latestChanges().first)
        #expect(delete.before == ["id": 1, "name": "n"])
        #expect(delete.redacted == ["password"])
        let stored = try await temporary.store.read { db in
            try db.rows("SELECT changes FROM history_transaction").map { "\($0)" }.joined()
        }
        let secrets = ["secret-1", "secret-2", "cached-1", "cached-2"].map {
            "\(Array($0.utf8))".dropFirst().dropLast()
        }
        #expect(secrets.filter { stored.contains($0) } == [])
    }

    @Test("a full row image records every column before an update")
    func fullImage() async throws {
        let options = TrackingOptions(rowImage: .full)
        let temporary = try await TemporaryStore(schema: Self.schema, tracked: options)
        try await temporary.write("INSERT INTO article VALUES (1, 'a', 5)")
        try await temporary.write("UPDATE article SET views = 6")
        let update = try #require(try await temporary.latestChanges().first)
        #expect(update.before == ["id": 1, "title": "a", "views": 5])
        #expect(update.after == ["views": 6])
        #expect(update.changed == ["views"])
    }

    @Test("the user's last inserted rowid and counts of changes are not disturbed, in Swift and in SQL")
    func countersAreUndisturbed() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        try await temporary.store.write { db in
            try db.execute("INSERT INTO article(title) VALUES ('a'), ('b'), ('c')")
            #expect(db.changes == 3)
            #expect(db.lastInsertedRowID == 3)
        }
        try await temporary.store.write { db in
            #expect(db.changes == 3)
            #expect(db.totalChanges == 3)
            #expect(try db.rows("SELECT changes(), total_changes(), last_insert_rowid()") == [[3, 3, 3]])
            try db.execute("UPDATE article SET views = 1 WHERE id < 3")
            #expect(try db.rows("SELECT changes(), total_changes()") == [[2, 5]])
            try db.execute("UPDATE article SET views = 1 WHERE id = 99")
            #expect(try db.rows("SELECT changes(), total_changes()") == [[0, 5]])
        }
    }
}
