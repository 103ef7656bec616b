import LocalContexts
import PersistentHistory
import Synchronization
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("Closure context", .timeLimit(.minutes(3)))
struct ClosureContextTests {
    private static let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, v)"

    @Test("a closure is given each batch as it is")
    func batches() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        for number in 1...5 { try await temporary.write("INSERT INTO t VALUES (\(number), 'x')") }
        let seen = Mutex<[[Int64]]>([])
        let context = ClosureContext("c") { batch in
            seen.withLock { $0.append(batch.transactions.map(\.token.sequence)) }
        }
        try await temporary.store.merge(into: context, pageSize: 4)
        #expect(seen.withLock { $0 } == [[1, 2, 3, 4], [5, 6]])
        #expect(context.name == "c" && context.origin == nil && !context.isDurable && !context.canLoad)
        #expect(try await context.durableToken() == nil)
    }

    @Test("a closure for transactions is given them one by one, and its error ends the batch")
    func transactions() async throws {
        struct Refused: Error {}
        let temporary = try await TemporaryStore(schema: Self.schema)
        for number in 1...3 { try await temporary.write("INSERT INTO t VALUES (\(number), 'x')") }
        let seen = Mutex<[Int64]>([])
        let origin = HistoryOrigin()
        let context = ClosureContext.eachTransaction("c", origin: origin) { transaction in
            if transaction.token.sequence == 3 { throw Refused() }
            seen.withLock { $0.append(transaction.token.sequence) }
        }
        await #expect(throws: Refused.self) { try await temporary.store.merge(into: context) }
        #expect(seen.withLock { $0 } == [1, 2])
        #expect(context.origin == origin)
    }

    @Test("a closure loads rows from a snapshot; without one the context says that it cannot")
    func loading() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        try await temporary.write("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        let loaded = Mutex<[SQLiteValue]>([])
        let context = ClosureContext(
            "c",
            load: { snapshot in
                for entity in snapshot.entities {
                    for try await page in snapshot.rows(of: entity) {
                        loaded.withLock { $0 += page.compactMap { $0["v"] } }
                    }
                }
            }, merge: { _ in })
        #expect(context.canLoad)
        try await temporary.store.withSnapshot { try await context.load($0) }
        #expect(loaded.withLock { $0 } == ["a", "b"])
        await expectCode(.invalidRequest) {
            try await temporary.store.withSnapshot { try await ClosureContext("d", merge: { _ in }).load($0) }
        }
    }
}
