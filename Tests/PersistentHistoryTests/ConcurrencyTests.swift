import Foundation
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

/// Many tasks on one store, and several stores on one file: what the thread sanitizer watches.
@Suite("Concurrency", .timeLimit(.minutes(3)))
struct ConcurrencyTests {
    private static let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, writer INTEGER, v INTEGER)"

    @Test("parallel writers of one store: each commit once, in token order, and each sees its own token")
    func parallelWriters() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        let tokens = try await withThrowingTaskGroup(of: [Int64].self) { group in
            for writer in 0..<8 {
                group.addTask {
                    var sequences: [Int64] = []
                    for number in 0..<25 {
                        let token = try await temporary.store.write(context: "writer-\(writer)") { db in
                            try db.execute("INSERT INTO t(writer, v) VALUES (?, ?)", writer, number)
                        }.token
                        if let token { sequences.append(token.sequence) }
                    }
                    return sequences
                }
            }
            return try await group.reduce(into: [[Int64]]()) { $0.append($1) }
        }
        #expect(tokens.allSatisfy { $0 == $0.sorted() && $0.count == 25 })
        #expect(tokens.flatMap { $0 }.sorted() == Array(2...201))
        var last: [SQLiteValue: Int64] = [:]
        for try await change in temporary.store.changes() {
            guard case .integer(let value)? = change.after?["v"], let writer = change.after?["writer"] else { continue }
            #expect(value == (last[writer] ?? -1) + 1)
            last[writer] = value
        }
        #expect(last.count == 8 && last.values.allSatisfy { $0 == 24 })
    }

    @Test("readers beside writers and a cleaner see no hole: everything, or tokenExpired")
    func readersBesideCleaner() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        let cleaner = try await HistoryStore.open(temporary.path, author: "cleaner")
        let outcomes = try await withThrowingTaskGroup(of: String.self) { group in
            group.addTask {
                for number in 0..<200 { try await temporary.write("INSERT INTO t(v) VALUES (\(number))") }
                return "wrote"
            }
            group.addTask {
                for _ in 0..<20 { try await cleaner.deleteHistory(before: .token(cleaner.currentToken())) }
                return "cleaned"
            }
            for _ in 0..<3 {
                group.addTask { try await Self.follow(temporary.store, until: 201) }
            }
            return try await group.reduce(into: [String]()) { $0.append($1) }
        }
        #expect(outcomes.count { $0 == "followed" } == 3)
        #expect(outcomes.contains("wrote") && outcomes.contains("cleaned"))
        #expect(try await temporary.store.read { try $0.first("SELECT count(*) FROM t", as: Int.self) } == 200)
        await cleaner.close()
    }

    /// Reads on and on until it has seen a sequence; begins anew at the oldest where it was too slow.
    private static func follow(_ store: HistoryStore, until end: Int64) async throws -> String {
        var position = try await store.currentToken()
        while position.sequence < end {
            do {
                for try await transaction in store.history(HistoryRequest(after: position)) {
                    guard transaction.token.sequence == position.sequence + 1 else { return "a hole" }
                    position = transaction.token
                }
            } catch let error as HistoryError where error.code == .tokenExpired {
                position = try await store.oldestToken()
            }
            await Task.yield()
        }
        return "followed"
    }

    @Test("two stores of one process on one file commit in one order")
    func twoStores() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        let other = try await HistoryStore.open(temporary.path, author: "billing")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for store in [temporary.store, other] {
                group.addTask {
                    for number in 0..<100 {
                        try await store.write { db in try db.execute("INSERT INTO t(v) VALUES (?)", number) }
                    }
                }
            }
            try await group.waitForAll()
        }
        let all = try await temporary.transactions()
        #expect(all.map(\.token.sequence) == Array(1...201))
        #expect(all.count { $0.author == "billing" } == 100)
        await other.close()
    }

    @Test("closing a store while others write and read ends them with an error, never a crash")
    func closeWhileBusy() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        let store = temporary.store
        let codes = await withTaskGroup(of: HistoryError.Code?.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    do {
                        while true {
                            try await store.write { db in try db.execute("INSERT INTO t(v) VALUES (1)") }
                            _ = try await store.count()
                        }
                    } catch {
                        return (error as? HistoryError)?.code
                    }
                }
            }
            group.addTask {
                while (try? await store.count()) ?? 5 < 5 { await Task.yield() }
                await store.close()
                return .closed
            }
            return await group.reduce(into: [HistoryError.Code?]()) { $0.append($1) }
        }
        #expect(codes == Array(repeating: .closed, count: 5))
    }

    @Test("the README's first program does what it says")
    func firstProgram() async throws {
        let directory = try TemporaryDirectory()
        let store = try await HistoryStore.open(directory.file("main.db"), author: "orders", create: true)
        try await store.migrate { db in
            try db.execute("CREATE TABLE IF NOT EXISTS article(id INTEGER PRIMARY KEY, title TEXT)")
        }
        try await store.track(.all)

        let position = try await store.currentToken()
        let token = try await store.write(context: "import") { db in
            try db.execute("INSERT INTO article(title) VALUES (?)", "Hello")
        }.token
        var printed: [String] = []
        for try await transaction in store.history(HistoryRequest(after: position)) {
            for try await change in transaction.changes {
                printed.append(
                    "\(transaction.author) \(change.operation) \(change.objectID) \(change.after?["title"] ?? .null)")
            }
        }
        #expect(token == (try await store.currentToken()))
        #expect(
            printed == [
                "orders insert tidings://\(store.storeID.uuidString.lowercased())/article/id=i1 text(\"Hello\")"
            ])
    }
}
