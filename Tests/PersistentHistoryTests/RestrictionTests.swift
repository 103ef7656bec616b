import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("Batches restricted to entities", .timeLimit(.minutes(2)))
struct RestrictionTests {
    private static func store(spillThreshold: Int = 256 * 1024) async throws -> TemporaryStore {
        var options = HistoryStore.Options()
        options.spillThreshold = spillThreshold
        return try await TemporaryStore(
            schema: """
                CREATE TABLE a(id INTEGER PRIMARY KEY, v); CREATE TABLE b(id INTEGER PRIMARY KEY, v);
                CREATE TABLE c(id INTEGER PRIMARY KEY, v);
                """, options: options)
    }

    /// Everything after a token, read in pages that are one batch in the end.
    private static func batch(_ temporary: TemporaryStore, pageSize: Int) async throws -> HistoryBatch {
        var request = HistoryRequest(pageSize: pageSize)
        var transactions: [HistoryTransaction] = []
        while true {
            let fetch = try await temporary.store.fetch(request)
            transactions += fetch.transactions
            if fetch.isAtEnd { return HistoryBatch(transactions, through: fetch.token) }
            request.start = .token(fetch.token)
        }
    }

    /// Each transaction as its sequence, its schema records and its changes.
    private static func short(_ batch: HistoryBatch) async throws -> [String] {
        var all: [String] = []
        for transaction in batch.transactions {
            let schema = try await transaction.schemaChanges().map { "\($0.kind) \($0.entity)" }
            let changes = try await transaction.changes.all().map { "\($0.operation) \($0.entity)" }
            all.append(([String(transaction.token.sequence)] + schema + changes).joined(separator: ", "))
        }
        return all
    }

    @Test("transactions without such changes are left out, the others have only these", arguments: [1, 2, 4000])
    func pages(_ pageSize: Int) async throws {
        let temporary = try await Self.store()
        try await temporary.write(
            "INSERT INTO a VALUES (1, 1); INSERT INTO b VALUES (1, 1); INSERT INTO c VALUES (1, 1)")
        try await temporary.write("INSERT INTO b VALUES (2, 1)")
        try await temporary.write("UPDATE c SET v = 2; UPDATE a SET v = 2")
        try await temporary.write("DELETE FROM b")
        try await temporary.write("DELETE FROM a")
        let batch = try await Self.batch(temporary, pageSize: pageSize)
        let head = try await temporary.store.currentToken()
        let one = batch.restricted(to: ["a"])
        #expect(one.token == head)
        #expect(try await Self.short(one) == ["1, track a", "2, insert a", "4, update a", "6, delete a"])
        let two = batch.restricted(to: ["c", "A"])
        #expect(
            try await Self.short(two) == [
                "1, track a, track c", "2, insert a, insert c", "4, update c, update a", "6, delete a",
            ])
        #expect(try await Self.short(two.restricted(to: ["C", "b"])) == ["1, track c", "2, insert c", "4, update c"])
        #expect(batch.restricted(to: ["nothing"]).transactions.isEmpty)
        #expect(batch.restricted(to: []).transactions.isEmpty && batch.restricted(to: []).token == head)
        #expect(try await Self.short(batch).count == 6)
    }

    @Test("what was left out before stays out, and what it leaves empty goes")
    func filteredBefore() async throws {
        let temporary = try await Self.store()
        try await temporary.write("INSERT INTO a VALUES (1, 1); INSERT INTO b VALUES (1, 1)")
        try await temporary.write("INSERT INTO a VALUES (2, 1); INSERT INTO c VALUES (1, 1)")
        let batch = try await Self.batch(temporary, pageSize: 4000)
        var exclusion = HistoryExclusion()
        exclusion.through["a"] = 2
        let left = HistoryBatch(exclusion.apply(to: batch.transactions), through: batch.token)
        let restricted = left.restricted(to: ["a", "b"])
        #expect(try await Self.short(restricted) == ["1, track a, track b", "2, insert b", "3, insert a"])
        #expect(try await Self.short(batch.restricted(to: ["a", "c"]).restricted(to: ["b", "c"])).count == 2)
    }

    @Test("a transaction that holds nothing but a record about such a table stays")
    func schemaOnly() async throws {
        let temporary = try await Self.store()
        try await temporary.write("ALTER TABLE a ADD COLUMN w")
        try await temporary.write("ALTER TABLE b ADD COLUMN w")
        try await temporary.store.untrack(["a"])
        let batch = try await Self.batch(temporary, pageSize: 2)
        #expect(try await Self.short(batch.restricted(to: ["a"])) == ["1, track a", "2, alter a", "4, untrack a"])
    }

    @Test("a large transaction's further parts are restricted too")
    func chunks() async throws {
        let temporary = try await Self.store(spillThreshold: 100)
        let rows = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 300)"
        try await temporary.write(
            """
            CREATE TEMP TRIGGER both AFTER INSERT ON a BEGIN INSERT INTO b VALUES (new.id, 'b of ' || new.id); END;
            \(rows) INSERT INTO a SELECT i, 'a' || i FROM n
            """)
        let batch = try await Self.batch(temporary, pageSize: 4000)
        let last = try #require(batch.transactions.last)
        #expect(try await last.changes.all().count == 600)
        for (name, word) in [("a", "a"), ("B", "b of ")] {
            let restricted = try #require(batch.restricted(to: [name]).transactions.last)
            let changes = try await restricted.changes.all().map { $0.decoded() }
            #expect(changes.map { $0.after?["v"] } == (1...300).map { .text("\(word)\($0)") })
        }
    }
}
