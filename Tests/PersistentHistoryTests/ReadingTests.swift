import Foundation
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("Reading", .timeLimit(.minutes(2)))
struct ReadingTests {
    /// Ten transactions by two authors over two entities; the sequence of the first is 2, after the tracking.
    ///
    /// Odd numbers (2 is the first) by `orders` with context `a`, even by `billing` without one; the clock moves by a
    /// second a transaction.
    private static func tenTransactions() async throws -> TemporaryStore {
        let clock = TestClock(microseconds: 0)
        var options = HistoryStore.Options()
        options.clock = clock
        let schema = "CREATE TABLE a(id INTEGER PRIMARY KEY, v, w); CREATE TABLE b(id TEXT PRIMARY KEY, v)"
        let temporary = try await TemporaryStore(schema: schema, options: options)
        let billing = try await HistoryStore.open(temporary.path, author: "billing", options: options)
        for number in 2...11 {
            clock.set(microseconds: Int64(number) * 1_000_000)
            let store = number % 2 == 0 ? temporary.store : billing
            try await store.write(context: number % 2 == 0 ? "a" : nil) { db in
                switch number {
                case 2...5: try db.execute("INSERT INTO a VALUES (?, 0, 0)", number)
                case 6: try db.execute("INSERT INTO b VALUES ('k', 1); UPDATE a SET v = 1 WHERE id = 2")
                case 7: try db.execute("UPDATE a SET w = 1 WHERE id = 3")
                case 8: try db.execute("UPDATE b SET id = 'l'")
                case 9: try db.execute("DELETE FROM a WHERE id = 4")
                case 10: try db.execute("DELETE FROM b")
                default: try db.execute("INSERT INTO a VALUES (100, 5, 5)")
                }
            }
        }
        await billing.close()
        return temporary
    }

    private static func request(_ change: (inout HistoryRequest) -> Void) -> HistoryRequest {
        var request = HistoryRequest()
        change(&request)
        return request
    }

    @Test("PHT4: nil is everything, the head nothing; oldest first, changes in order of execution")
    func fetchAfterToken() async throws {
        let temporary = try await Self.tenTransactions()
        let head = try await temporary.store.currentToken()
        #expect(try await temporary.sequences(HistoryRequest(after: nil as HistoryToken?)) == Array(1...11))
        #expect(try await temporary.sequences(HistoryRequest(after: head)) == [])
        let middle = try #require(try await temporary.store.transaction(5))
        #expect(try await temporary.sequences(HistoryRequest(after: middle.token)) == Array(6...11))
        #expect(try await temporary.sequences(HistoryRequest(after: middle)) == Array(6...11))
        let sixth = try #require(try await temporary.store.transaction(6))
        #expect(try await sixth.changes.all().map(\.entity) == ["b", "a"])
    }

    @Test("PHT5: after a date: everything behind the longest run of older transactions")
    func fetchAfterDate() async throws {
        let temporary = try await Self.tenTransactions()
        func after(_ seconds: Double) async throws -> [Int64] {
            try await temporary.sequences(HistoryRequest(after: .date(Date(timeIntervalSince1970: seconds))))
        }
        #expect(try await after(5) == Array(6...11))
        #expect(try await after(4.999_999) == Array(5...11))
        #expect(try await after(-1) == Array(1...11))
        #expect(try await after(11) == [])
    }

    @Test("PHT5: every filter alone")
    func filters() async throws {
        let temporary = try await Self.tenTransactions()
        let storeID = temporary.store.storeID
        func sequences(_ change: (inout HistoryRequest) -> Void) async throws -> [Int64] {
            try await temporary.sequences(Self.request(change))
        }
        let mine = Int(ProcessInfo.processInfo.processIdentifier)
        let origin = temporary.store.origin
        #expect(try await sequences { $0.authors = ["billing"] } == [3, 5, 7, 9, 11])
        #expect(try await sequences { $0.authors = ["billing", "orders"] } == Array(1...11))
        #expect(try await sequences { $0.authors = [] } == [])
        #expect(try await sequences { $0.authors = ["nobody"] } == [])
        #expect(try await sequences { $0.excludedAuthors = ["billing"] } == [1, 2, 4, 6, 8, 10])
        #expect(try await sequences { $0.contextNames = ["a"] } == [2, 4, 6, 8, 10])
        #expect(try await sequences { $0.contextNames = [nil] } == [3, 5, 7, 9, 11])
        #expect(try await sequences { $0.contextNames = [nil, "track"] } == [1, 3, 5, 7, 9, 11])
        #expect(try await sequences { $0.contextNames = [] } == [])
        #expect(try await sequences { $0.origins = [origin] } == [1, 2, 4, 6, 8, 10])
        #expect(try await sequences { $0.processIDs = [mine] } == Array(1...11))
        #expect(try await sequences { $0.processIDs = [mine + 1] } == [])
        #expect(try await sequences { $0.entities = ["b"] } == [1, 6, 8, 10])
        #expect(try await sequences { $0.entities = [] } == [])
        #expect(try await sequences { $0.operations = [.insert] } == [2, 3, 4, 5, 6, 11])
        #expect(try await sequences { $0.operations = [.update, .delete] } == [6, 7, 8, 9, 10])
        #expect(try await sequences { $0.operations = [] } == [])
        #expect(try await sequences { $0.changedColumns = ["v"] } == [6])
        #expect(try await sequences { $0.changedColumns = ["id"] } == [8])
        #expect(try await sequences { $0.changedColumns = [] } == [])
        let two = HistoryObjectID(storeID: storeID, entity: "a", key: ["id": 2])
        #expect(try await sequences { $0.objects = [two] } == [2, 6])
        let renamed = HistoryObjectID(storeID: storeID, entity: "b", key: ["id": "l"])
        #expect(try await sequences { $0.objects = [renamed] } == [8, 10])
        #expect(try await sequences { $0.objects = [] } == [])
        #expect(try await sequences { $0.since = Date(timeIntervalSince1970: 9) } == [9, 10, 11])
        #expect(try await sequences { $0.before = Date(timeIntervalSince1970: 3) } == [1, 2])
        #expect(try await sequences { $0.through = 3 } == [1, 2, 3])
    }

    @Test("PHT5: filters combined, and of each transaction only the changes that pass")
    func combinedFilters() async throws {
        let temporary = try await Self.tenTransactions()
        let request = Self.request {
            $0.excludedAuthors = ["billing"]
            $0.entities = ["a"]
            $0.operations = [.insert, .update]
            $0.since = Date(timeIntervalSince1970: 4)
            $0.before = Date(timeIntervalSince1970: 11)
        }
        let found = try await temporary.transactions(request)
        #expect(found.map(\.token.sequence) == [4, 6])
        #expect(try await found[1].changes.all().map(\.operation) == [.update])
        #expect(found[1].changeCount == 2)
        // No transaction has a delete of a and an update of it together.
        #expect(
            try await temporary.sequences(
                Self.request {
                    $0.entities = ["b"]
                    $0.changedColumns = ["v"]
                }) == [])
    }

    @Test("a filter on an entity that never was refuses, as do a page size of 0 and a negative limit")
    func refusedRequests() async throws {
        let temporary = try await Self.tenTransactions()
        for (request, code) in [
            (Self.request { $0.entities = ["a", "nope"] }, HistoryError.Code.noSuchEntity),
            (Self.request { $0.pageSize = 0 }, .invalidRequest), (Self.request { $0.limit = -1 }, .invalidRequest),
            (Self.request { $0.through = -1 }, .invalidRequest),
        ] {
            let error = await #expect(throws: HistoryError.self) { try await temporary.sequences(request) }
            #expect(error?.code == code)
        }
    }

    @Test("PHT6: status, count, transactions, changes, object IDs, transactions with changes")
    func resultKinds() async throws {
        let temporary = try await Self.tenTransactions()
        let store = temporary.store
        let request = Self.request { $0.entities = ["b"] }
        let status = try await store.status(request)
        let head = try await store.currentToken()
        let oldest = try await store.oldestToken()
        #expect(status.hasMatch && status.head == head && status.oldest == oldest)
        #expect(try await store.status(Self.request { $0.authors = ["nobody"] }).hasMatch == false)
        #expect(try await store.count(request) == 4)
        var headers: [(Int64, Int)] = []
        for try await transaction in store.transactions(request) {
            headers.append((transaction.token.sequence, transaction.changeCount))
            // Not read is not the same as none.
            let error = await #expect(throws: HistoryError.self) { try await transaction.changes.all() }
            #expect(error?.code == .invalidRequest)
        }
        #expect(headers.map(\.0) == [1, 6, 8, 10])
        #expect(headers.map(\.1) == [0, 2, 1, 1])
        var changes: [String] = []
        for try await change in store.changes(request) {
            changes.append("\(change.operation) \(change.objectID.key["id"]!)")
        }
        #expect(changes == ["insert text(\"k\")", "update text(\"k\")", "delete text(\"l\")"])
        var objects: [HistoryObjectID] = []
        for try await object in store.objectIDs(request) { objects.append(object) }
        #expect(objects.map { $0.key["id"] } == ["k", "k", "l"])
        #expect(try await temporary.transactions(request).map(\.token.sequence) == [1, 6, 8, 10])
    }

    @Test("PHT7: limit, page size and newest first", arguments: [1, 2, 3, 7, 1000])
    func limits(pageSize: Int) async throws {
        let temporary = try await Self.tenTransactions()
        func sequences(_ change: (inout HistoryRequest) -> Void) async throws -> [Int64] {
            try await temporary.sequences(
                Self.request {
                    $0.pageSize = pageSize
                    change(&$0)
                })
        }
        #expect(try await sequences { $0.limit = 4 } == [1, 2, 3, 4])
        #expect(try await sequences { $0.limit = 0 } == [])
        #expect(try await sequences { $0.limit = 100 } == Array(1...11))
        #expect(try await sequences { $0.order = .newestFirst } == Array((1...11).reversed()))
        #expect(
            try await sequences {
                $0.order = .newestFirst
                $0.limit = 2
                $0.authors = ["billing"]
            } == [11, 9])
        #expect(
            try await sequences {
                $0.order = .newestFirst
                $0.through = 5
                $0.limit = 3
            } == [5, 4, 3])
        let token = try #require(try await temporary.store.transaction(8)).token
        #expect(
            try await sequences {
                $0.start = .token(token)
                $0.order = .newestFirst
            } == [11, 10, 9])
        #expect(
            try await sequences {
                $0.start = .token(token)
                $0.through = 9
            } == [9])
        var request = HistoryRequest(pageSize: pageSize)
        request.limit = 3
        var changes = 0
        for try await _ in temporary.store.changes(request) { changes += 1 }
        #expect(changes == 3)
        var sizes: [Int] = []
        for try await page in temporary.store.pages(HistoryRequest(pageSize: pageSize)) { sizes.append(page.count) }
        #expect(sizes.reduce(0, +) == 11 && sizes.allSatisfy { $0 <= pageSize })
    }

    @Test("what is committed after the first page does not lengthen a read")
    func readEnds() async throws {
        let temporary = try await Self.tenTransactions()
        var found: [Int64] = []
        for try await transaction in temporary.store.history(HistoryRequest(pageSize: 2)) {
            found.append(transaction.token.sequence)
            try await temporary.write("INSERT INTO a(v) VALUES (\(found.count))")
        }
        #expect(found == Array(1...11))
    }

    @Test("transactions of many thousand rows that no filter passes are walked over in several pages")
    func longScan() async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE a(id INTEGER PRIMARY KEY, v)")
        let seed = try await temporary.store.currentToken()
        // As many transactions as would take too long to write one by one: copied rows, which is what a reader sees.
        let writer = try await SQLiteConnection.open(temporary.path)
        try await writer.run { db in
            try db.execute(
                """
                INSERT INTO history_transaction
                SELECT value, value, 0, CASE value WHEN 45000 THEN 'rare' ELSE 'common' END, NULL, 'h:1:0', x'', 0, 0, x'01'
                FROM (WITH RECURSIVE n(value) AS (SELECT 2 UNION ALL SELECT value + 1 FROM n WHERE value < 50000) SELECT value FROM n)
                """)
        }
        await writer.close()
        var request = HistoryRequest(after: seed)
        request.authors = ["rare"]
        #expect(try await temporary.sequences(request) == [45_000])
        request.order = .newestFirst
        #expect(try await temporary.sequences(request) == [45_000])
        #expect(try await temporary.store.count() == 50_000)
    }

    @Test("a large transaction is read part by part, also where a filter has to look into it")
    func largeTransaction() async throws {
        var options = HistoryStore.Options()
        options.spillThreshold = 5000
        let temporary = try await TemporaryStore(schema: "CREATE TABLE a(id INTEGER PRIMARY KEY, v)", options: options)
        try await temporary.write(
            "INSERT INTO a SELECT value, 'text of row ' || value FROM (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 3000) SELECT value FROM n)"
        )
        let transaction = try #require(try await temporary.store.transaction(2))
        #expect(!transaction.changes.isInMemory && transaction.changeCount == 3000)
        let keys = try await transaction.changes.all().map { $0.objectID.key["id"] }
        #expect(keys == (1...3000).map { .integer($0) })
        let error = #expect(throws: HistoryError.self) { try transaction.changes.decode { _ in } }
        #expect(error?.code == .invalidRequest)
        let last = HistoryObjectID(storeID: temporary.store.storeID, entity: "a", key: ["id": 2999])
        let found = try await temporary.transactions(Self.request { $0.objects = [last] })
        #expect(found.map(\.token.sequence) == [2])
        #expect(try await found[0].changes.all().map(\.objectID) == [last])
        let missing = HistoryObjectID(storeID: temporary.store.storeID, entity: "a", key: ["id": 3001])
        #expect(try await temporary.sequences(Self.request { $0.objects = [missing] }) == [])
    }
}
