import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("Text of a database that is not in UTF-8", .timeLimit(.minutes(3)))
struct TextEncodingTests {
    @Test("history holds the same text whatever the database's encoding", arguments: ["UTF-16le", "UTF-16be", "UTF-8"])
    func textIsUTF8InHistory(encoding: String) async throws {
        let directory = try TemporaryDirectory()
        let path = directory.file("encoded.db")
        let connection = try await SQLiteConnection.open(path, options: OpenOptions(access: .create))
        try await connection.run { db in
            try db.execute("PRAGMA encoding = '\(encoding)'")
            try db.execute("CREATE TABLE t(id TEXT PRIMARY KEY NOT NULL, v TEXT, d TEXT)")
            try db.execute("INSERT INTO t VALUES ('grün', 'öffnen', '')")
            try db.execute("ALTER TABLE t ADD COLUMN later TEXT DEFAULT 'später'")
        }
        await connection.close()

        let store = try await HistoryStore.open(path, author: "orders", create: true)
        try await store.track(.all)
        try await store.write(context: "übung") { db in
            try db.execute("INSERT INTO t VALUES (?, ?, ?, ?)", "ключ", "日本語 𝄞", "", "x")
            try db.execute("UPDATE t SET v = ?, d = 'schließen', later = 'früh' WHERE id = 'grün'", "x 日本語")
            try db.execute("DELETE FROM t")
        }
        let transaction = try #require(try await store.transaction(store.currentToken().sequence))
        let changes = try await transaction.changes.all().map { $0.decoded() }
        await store.close()

        #expect(transaction.contextName == "übung")
        #expect(changes.count == 4)
        #expect(changes[0].after == ["id": "ключ", "v": "日本語 𝄞", "d": "", "later": "x"])
        #expect(changes[1].key == ["id": "grün"])
        #expect(changes[1].before == ["v": "öffnen", "d": "", "later": "später"])
        #expect(changes[1].after == ["v": "x 日本語", "d": "schließen", "later": "früh"])
        let deleted = changes.dropFirst(2).compactMap(\.before)
        #expect(deleted.contains(["id": "ключ", "v": "日本語 𝄞", "d": "", "later": "x"]))
        #expect(deleted.contains(["id": "grün", "v": "x 日本語", "d": "schließen", "later": "früh"]))
    }

    @Test(
        "a text written through a blob is recorded as what it reads as", arguments: ["UTF-16le", "UTF-16be", "UTF-8"])
    func blobOfText(encoding: String) async throws {
        let directory = try TemporaryDirectory()
        let path = directory.file("encoded.db")
        let connection = try await SQLiteConnection.open(path, options: OpenOptions(access: .create))
        try await connection.run { db in
            try db.execute("PRAGMA encoding = '\(encoding)'; CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)")
            try db.execute("INSERT INTO t VALUES (1, 'abc')")
        }
        await connection.close()
        let store = try await HistoryStore.open(path, author: "orders", create: true)
        try await store.track(.all)
        let letter: [UInt8] = encoding == "UTF-8" ? [0x58] : encoding == "UTF-16le" ? [0x58, 0] : [0, 0x58]
        try await store.write { db in
            try db.withBlob(table: "t", column: "V", rowID: 1, isWritable: true) { blob in try blob.write(letter) }
        }
        let change = try #require(try await store.transaction(2)?.changes.all().first)
        #expect(change.before == ["v": "abc"] && change.after == ["v": "Xbc"])
        await store.close()
    }

    @Test("names that differ in their normal form only are two names")
    func normalForms() async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        for name in ["\u{E9}", "e\u{301}"] {
            let token = try await temporary.write("INSERT INTO t(v) VALUES ('\(name)')", context: name)
            let transaction = try #require(try await temporary.store.transaction(token?.sequence ?? 0))
            #expect(transaction.contextName.map { Array($0.utf8) } == Array(name.utf8))
            let value = try await temporary.latestChanges().first?.after?["v"]
            #expect(value == .text(name))
        }
    }
}
