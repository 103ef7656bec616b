import Foundation
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("Damaged stores", .timeLimit(.minutes(2)))
struct DamageTests {
    private static let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, v)"

    /// A store of five transactions, the first of which tracks the table, damaged by SQL past Tidings.
    private static func damaged(_ sql: String) async throws -> TemporaryStore {
        let temporary = try await TemporaryStore(schema: schema)
        for id in 2...5 { try await temporary.write("INSERT INTO t VALUES (\(id), 'x')") }
        let foreign = try await SQLiteConnection.open(temporary.path)
        try await foreign.run { db in try db.execute(sql) }
        await foreign.close()
        return temporary
    }

    private static func error(_ body: () async throws -> Void) async -> HistoryError? {
        await #expect(throws: HistoryError.self) { try await body() }
    }

    @Test(
        "a sequence that overflows is an error, not a crash",
        arguments: [
            "UPDATE history_store SET purged_sequence = 9223372036854775807",
            "UPDATE history_store SET purged_sequence = -5",
        ])
    func impossibleMark(sql: String) async throws {
        let temporary = try await Self.damaged(sql)
        let store = temporary.store
        let attempts: [() async throws -> Void] = [
            { _ = try await store.info() }, { _ = try await store.transaction(3) }, { _ = try await store.count() },
            { try await store.deleteHistory(before: .sequence(3)) },
            { _ = try await HistoryStore.open(temporary.path, author: "orders") },
            { _ = try await HistoryStore.openReadOnly(temporary.path) },
        ]
        for attempt in attempts {
            let error = await Self.error(attempt)
            #expect(error?.code == .damagedHistory && error?.message.contains(temporary.path) == true)
        }
    }

    @Test("a newest transaction that overflows is an error, not a crash")
    func impossibleHead() async throws {
        let temporary = try await Self.damaged(
            "UPDATE history_transaction SET sequence = \(Int64.max) WHERE sequence = 5")
        let store = temporary.store
        #expect(await Self.error { _ = try await store.info() }?.code == .damagedHistory)
        #expect(await Self.error { _ = try await store.currentToken() }?.code == .damagedHistory)
        #expect(await Self.error { _ = try await store.count() }?.code == .damagedHistory)
    }

    @Test("a transaction deleted from between others is named, in both orders, and never skipped")
    func hole() async throws {
        let temporary = try await Self.damaged("DELETE FROM history_transaction WHERE sequence = 3")
        let store = temporary.store
        for order in [HistoryRequest.Order.oldestFirst, .newestFirst] {
            let request = HistoryRequest(order: order)
            for attempt in [{ _ = try await temporary.sequences(request) }, { _ = try await store.count(request) }] {
                let error = await Self.error(attempt)
                #expect(error?.code == .damagedHistory)
                #expect(error?.message.contains("transaction 3 is missing between others") == true)
            }
        }
        // What does not pass over the hole is still there.
        var rest = HistoryRequest(after: try #require(try await store.transaction(4)).token)
        #expect(try await temporary.sequences(rest) == [5])
        rest.order = .newestFirst
        #expect(try await temporary.sequences(rest) == [5])
    }

    @Test("changes that are gone are an error, not an empty transaction")
    func emptied() async throws {
        let temporary = try await Self.damaged("UPDATE history_transaction SET changes = x'' WHERE sequence = 3")
        let error = await Self.error { _ = try await temporary.transactions() }
        #expect(error?.code == .damagedHistory)
        #expect(error?.message.contains("the changes of transaction 3 are gone") == true)
    }

    @Test("a store without its row is damaged, not of another format")
    func noState() async throws {
        let temporary = try await Self.damaged("DELETE FROM history_store")
        let error = await Self.error { _ = try await HistoryStore.openReadOnly(temporary.path) }
        #expect(error?.code == .damagedHistory && error?.message.contains("history_store has no row") == true)
    }

    @Test("an error of SQLite while reading names the file; a closure's own stays as it is")
    func missingTable() async throws {
        let temporary = try await Self.damaged("DROP TABLE history_chunk")
        let error = await Self.error { _ = try await temporary.store.info() }
        #expect(error?.code == .database && error?.message.contains(temporary.path) == true)
        await #expect(throws: SQLiteError.self) {
            try await temporary.store.read { db in try db.execute("SELECT * FROM nowhere") }
        }
    }
}
