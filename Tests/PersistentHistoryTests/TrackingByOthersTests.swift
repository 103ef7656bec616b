import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("What other connections change about tracking", .timeLimit(.minutes(2)))
struct TrackingByOthersTests {
    private static let schema = """
        CREATE TABLE article(id INTEGER PRIMARY KEY, title TEXT);
        CREATE TABLE note(id INTEGER PRIMARY KEY, text TEXT);
        """

    private func writers() async throws -> (TemporaryStore, HistoryStore) {
        let temporary = try await TemporaryStore(schema: Self.schema, tracking: ["article"])
        return (temporary, try await HistoryStore.open(temporary.path, author: "other"))
    }

    private func insert(_ table: String, _ store: HistoryStore) async throws -> HistoryToken? {
        try await store.write { db in try db.execute("INSERT INTO \(table) DEFAULT VALUES") }.token
    }

    @Test("tracking that begins and ends between rows of another writer is noticed at each step")
    func trackingTurns() async throws {
        let (temporary, other) = try await writers()
        for _ in 0..<3 {
            // Rows alone: what is known of the tables stays.
            #expect(try await insert("article", other) != nil)
            #expect(try await insert("article", temporary.store) != nil)
            #expect(try await insert("note", temporary.store) == nil)
            try await other.track(["note"])
            #expect(try await insert("note", temporary.store) != nil)
            try await other.untrack(["note"])
            #expect(try await insert("note", temporary.store) == nil)
        }
        await other.close()
    }

    @Test("options that another writer changes apply to the next row")
    func optionsTurn() async throws {
        let (temporary, other) = try await writers()
        #expect(try await insert("article", other) != nil)
        try await temporary.write("INSERT INTO article(title) VALUES ('a')")
        var options = TrackingOptions()
        options.redactedColumns = ["title"]
        try await other.track(["article"], options: options)
        try await temporary.write("INSERT INTO article(title) VALUES ('b')")
        #expect(try await temporary.latestChanges().map(\.redacted) == [["title"]])
        await other.close()
    }

    @Test("a column that a stock client adds is recorded, also where the first transaction to notice is rolled back")
    func columnTurns() async throws {
        struct Failure: Error {}
        let (temporary, other) = try await writers()
        #expect(try await insert("article", temporary.store) != nil)
        let client = try await SQLiteConnection.open(temporary.path)
        try await client.run { db in try db.execute("ALTER TABLE article ADD COLUMN views INTEGER DEFAULT 7") }
        await #expect(throws: Failure.self) {
            try await temporary.store.write { db in
                try db.execute("INSERT INTO article(title) VALUES ('lost')")
                throw Failure()
            }
        }
        // The other writer records a layout of the same number as the one that was rolled back.
        try await other.track(["note"])
        try await temporary.write("INSERT INTO article(title) VALUES ('b')")
        #expect(try await temporary.latestChanges().map { $0.after?["views"] } == [.integer(7)])
        try await temporary.write("INSERT INTO note(text) VALUES ('c')")
        #expect(try await temporary.latestChanges().map(\.entity) == ["note"])
        await client.close()
        await other.close()
    }
}
