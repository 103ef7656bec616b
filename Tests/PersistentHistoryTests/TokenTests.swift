import Foundation
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("Tokens and purges", .timeLimit(.minutes(2)))
struct TokenTests {
    private static let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, v)"

    private static func store(transactions: Int) async throws -> TemporaryStore {
        let clock = TestClock(microseconds: 0)
        var options = HistoryStore.Options()
        options.clock = clock
        let temporary = try await TemporaryStore(schema: Self.schema, options: options)
        for number in 0..<transactions {
            clock.set(microseconds: Int64(number + 2) * 1_000_000)
            try await temporary.write("INSERT INTO t(v) VALUES (\(number))")
        }
        return temporary
    }

    @Test("PHT9: a token exists on an empty store, and everything comes after it")
    func emptyStore() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema, tracking: nil)
        let token = try await temporary.store.currentToken()
        #expect(token.sequence == 0 && token.epoch == 1 && token.storeID == temporary.store.storeID)
        try await temporary.store.validate(token)
        try await temporary.store.track(.all)
        #expect(try await temporary.sequences(HistoryRequest(after: token)) == [1])
    }

    @Test("PHT9: Codable and textual round trips, the same in another process")
    func roundTrips() async throws {
        let temporary = try await Self.store(transactions: 3)
        let token = try await temporary.store.currentToken()
        let data = try JSONEncoder().encode(token)
        #expect(try JSONDecoder().decode(HistoryToken.self, from: data) == token)
        #expect(HistoryToken(token.description) == token)
        let child = try ChildProcess(ChildProcess.built("TestWriter"), ["token", temporary.path])
        let output = await child.output()
        #expect(output.ending == .exited(0))
        let printed = try #require(output.lines.first)
        #expect(try JSONDecoder().decode(HistoryToken.self, from: Data(printed.utf8)) == token)
    }

    @Test(
        "PHT9: what is no token is none",
        arguments: [
            "", "a:b:c:d", "7E1CF5D6-1E42-4A24-8A2C-1A8A22C4A111:0:1:0000000000000000",
            "7E1CF5D6-1E42-4A24-8A2C-1A8A22C4A111:1:-1:0000000000000000",
            "7E1CF5D6-1E42-4A24-8A2C-1A8A22C4A111:1:1:123",
            "7E1CF5D6-1E42-4A24-8A2C-1A8A22C4A111:1:1:+000000000000000",
            "7E1CF5D6-1E42-4A24-8A2C-1A8A22C4A111:1:1:0000000000000000:",
        ])
    func notAToken(text: String) {
        #expect(HistoryToken(text) == nil)
        let parts = text.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 4, let epoch = Int64(parts[1]), let sequence = Int64(parts[2]) else { return }
        let json = #"{"store": "\#(parts[0])", "epoch": \#(epoch), "sequence": \#(sequence), "nonce": "\#(parts[3])"}"#
        #expect(throws: DecodingError.self) { try JSONDecoder().decode(HistoryToken.self, from: Data(json.utf8)) }
    }

    @Test("PHT9: tokens are ordered by commit")
    func comparable() async throws {
        let temporary = try await Self.store(transactions: 5)
        let tokens = try await temporary.transactions().map(\.token)
        #expect(tokens.shuffled().sorted() == tokens)
        #expect(tokens[1] < tokens[2] && tokens[2] > tokens[1])
        #expect(Set(tokens + tokens).count == 6)
    }

    @Test("PHT8: delete before: exclusive, with true counts")
    func deleteBefore() async throws {
        let temporary = try await Self.store(transactions: 1)
        let store = temporary.store
        let all = try await temporary.transactions()
        #expect(all.count == 2)
        #expect(try await store.deleteHistory(before: all[0]) == 0)
        #expect(try await store.deleteHistory(before: .token(all[0].token)) == 0)
        #expect(try await store.deleteHistory(before: .date(all[0].time)) == 0)
        #expect(try await store.countHistory(before: .token(all[1].token)) == 1)
        #expect(try await store.deleteHistory(before: .token(all[1].token)) == 1)
        #expect(try await temporary.sequences() == [2])
        #expect(try await store.deleteHistory(before: all[1]) == 0)
        #expect(try await store.deleteHistory(before: .date(.distantFuture)) == 1)
        #expect(try await temporary.sequences() == [])
        #expect(try await store.read { try $0.first("SELECT count(*) FROM t", as: Int.self) } == 1)
    }

    @Test("PHT8: delete before a date: the longest prefix of older transactions")
    func deleteBeforeDate() async throws {
        let temporary = try await Self.store(transactions: 5)
        #expect(try await temporary.store.deleteHistory(before: .date(Date(timeIntervalSince1970: 4))) == 3)
        #expect(try await temporary.sequences() == [4, 5, 6])
        #expect(try await temporary.store.deleteHistory(before: .sequence(6)) == 2)
        #expect(try await temporary.sequences() == [6])
    }

    @Test("a purge of several chunks leaves no chunk of a large transaction behind, and one audit entry")
    func purgeInChunks() async throws {
        var options = HistoryStore.Options()
        options.spillThreshold = 100
        let temporary = try await TemporaryStore(schema: Self.schema, options: options)
        for number in 0..<1100 {
            try await temporary.write(
                "INSERT INTO t(v) VALUES (\(number)), (1), (2), (3), (4), (5), (6), (7), (8), (9)")
        }
        #expect(
            try await temporary.store.read { try $0.first("SELECT count(*) FROM history_chunk", as: Int.self) } == 0)
        try await temporary.write("INSERT INTO t(v) SELECT v || ' some text' FROM t LIMIT 100")
        #expect(
            try await temporary.store.read { try $0.first("SELECT count(*) FROM history_chunk", as: Int.self) ?? 0 }
                > 10)
        #expect(try await temporary.store.deleteHistory(before: .date(.distantFuture)) == 1102)
        let left = try await temporary.store.read { db in
            try db.rows("SELECT (SELECT count(*) FROM history_chunk), (SELECT count(*) FROM history_transaction)")
        }
        #expect(left == [[0, 0]])
        let audit = try await temporary.store.read { try $0.rows("SELECT kind, actor, count FROM history_audit") }
        #expect(audit == [["purge", "orders", 1102]])
    }

    @Test("a purge takes few of the transactions that have many parts at once, and all in the end")
    func purgeOfLargeTransactions() async throws {
        var options = HistoryStore.Options()
        options.spillThreshold = 40
        let temporary = try await TemporaryStore(schema: Self.schema, options: options)
        for _ in 0..<6 {
            try await temporary.write(
                "INSERT INTO t(v) SELECT 'a text of some length' FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT i FROM n)"
            )
        }
        #expect(try await temporary.store.deleteHistory(before: .sequence(4)) == 3)
        #expect(try await temporary.sequences() == [4, 5, 6, 7])
        #expect(try await temporary.store.deleteHistory(before: .date(.distantFuture)) == 4)
        #expect(
            try await temporary.store.read { try $0.first("SELECT count(*) FROM history_chunk", as: Int.self) } == 0)
        let audits = try await temporary.store.read { try $0.rows("SELECT count FROM history_audit ORDER BY id") }
        #expect(audits == [[3], [4]])
    }

    @Test("PHT10: behind the mark a token is expired, at the mark it is not")
    func expired() async throws {
        let temporary = try await Self.store(transactions: 5)
        let tokens = try await temporary.transactions().map(\.token)
        #expect(try await temporary.store.deleteHistory(before: .token(tokens[3])) == 3)
        let error = await #expect(throws: HistoryError.self) {
            try await temporary.sequences(HistoryRequest(after: tokens[1]))
        }
        #expect(error?.code == .tokenExpired)
        #expect(try await temporary.sequences(HistoryRequest(after: tokens[2])) == [4, 5, 6])
        #expect(try await temporary.store.oldestToken() == tokens[2])
        #expect(try await temporary.sequences(HistoryRequest(after: nil as HistoryToken?)) == [4, 5, 6])
    }

    @Test("a token of another store, epoch, nonce or beyond the head is invalid")
    func invalid() async throws {
        let temporary = try await Self.store(transactions: 2)
        let head = try await temporary.store.currentToken()
        let wrong = [
            HistoryToken(storeID: UUID(), epoch: 1, sequence: head.sequence, nonce: head.nonce),
            HistoryToken(storeID: head.storeID, epoch: 2, sequence: head.sequence, nonce: head.nonce),
            HistoryToken(storeID: head.storeID, epoch: 1, sequence: head.sequence, nonce: head.nonce &+ 1),
            HistoryToken(storeID: head.storeID, epoch: 1, sequence: head.sequence + 1, nonce: head.nonce),
            HistoryToken(storeID: head.storeID, epoch: 1, sequence: 0, nonce: head.nonce),
        ]
        for token in wrong {
            for attempt in [
                { _ = try await temporary.sequences(HistoryRequest(after: token)) },
                { try await temporary.store.validate(token) },
                { _ = try await temporary.store.deleteHistory(before: .token(token)) },
            ] as [@Sendable () async throws -> Void] {
                let error = await #expect(throws: HistoryError.self) { try await attempt() }
                #expect(error?.code == .tokenInvalid, "\(token)")
            }
        }
        #expect(try await temporary.sequences() == [1, 2, 3])
    }

    @Test("P3: all history purged, the store reopened, written: the token still grows")
    func tokensGrow() async throws {
        let temporary = try await Self.store(transactions: 3)
        #expect(try await temporary.store.deleteHistory(before: .date(.distantFuture)) == 4)
        let mark = try await temporary.store.currentToken()
        #expect(mark.sequence == 4)
        await temporary.store.close()
        let reopened = try await HistoryStore.open(temporary.path, author: "orders")
        let token = try await reopened.write { try $0.execute("INSERT INTO t(v) VALUES (1)") }.token
        #expect(token?.sequence == 5)
        #expect(try await reopened.write { try $0.execute("INSERT INTO t(v) VALUES (1)") }.token?.sequence == 6)
        #expect(try await reopened.count(HistoryRequest(after: mark)) == 2)
        // Another connection that purged knows it too.
        let other = try await HistoryStore.open(temporary.path, author: "cleaner")
        #expect(try await other.deleteHistory(before: .date(.distantFuture)) == 2)
        #expect(try await reopened.write { try $0.execute("INSERT INTO t(v) VALUES (1)") }.token?.sequence == 7)
        await other.close()
        await reopened.close()
    }

    @Test(
        "P30: a purge between two pages of a slow reader is tokenExpired, never a hole",
        arguments: [HistoryRequest.Order.oldestFirst, .newestFirst])
    func purgeBetweenPages(order: HistoryRequest.Order) async throws {
        let temporary = try await Self.store(transactions: 9)
        var found: [Int64] = []
        let error = await #expect(throws: HistoryError.self) {
            for try await page in temporary.store.pages(HistoryRequest(order: order, pageSize: 3)) {
                found += page.map(\.token.sequence)
                #expect(try await temporary.store.deleteHistory(before: .sequence(6)) == (found.count == 3 ? 5 : 0))
            }
        }
        #expect(error?.code == .tokenExpired)
        #expect(found == (order == .oldestFirst ? [1, 2, 3] : [10, 9, 8]))
    }

    @Test("P30: a purge of what was read already does not disturb the reader")
    func purgeBehindReader() async throws {
        let temporary = try await Self.store(transactions: 9)
        var found: [Int64] = []
        for try await page in temporary.store.pages(HistoryRequest(pageSize: 4)) {
            found += page.map(\.token.sequence)
            try await temporary.store.deleteHistory(before: .token(page[page.count - 1].token))
        }
        #expect(found == Array(1...10))
    }

    @Test("P30: a large transaction that is purged while its parts are read is tokenExpired")
    func purgeInsideTransaction() async throws {
        var options = HistoryStore.Options()
        options.spillThreshold = 200
        let temporary = try await TemporaryStore(schema: Self.schema, options: options)
        try await temporary.write(
            "INSERT INTO t(v) SELECT 'a text of some length' FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) SELECT i FROM n)"
        )
        let transaction = try #require(try await temporary.store.transaction(2))
        var iterator = transaction.changes.makeAsyncIterator()
        #expect(try await iterator.next()?.objectID.key == ["id": 1])
        try await temporary.store.deleteHistory(before: .date(.distantFuture))
        let error = await #expect(throws: HistoryError.self) { while try await iterator.next() != nil {} }
        #expect(error?.code == .tokenExpired)
    }

    @Test("P1: 1,000 commits with the clock frozen are all delivered, in order, once")
    func frozenClock() async throws {
        var options = HistoryStore.Options()
        options.clock = TestClock()
        let temporary = try await TemporaryStore(schema: Self.schema, options: options)
        var position = try await temporary.store.currentToken()
        var delivered: [Int64] = []
        for batch in 0..<10 {
            for number in 0..<100 { try await temporary.write("INSERT INTO t(v) VALUES (\(batch * 100 + number))") }
            for try await transaction in temporary.store.history(HistoryRequest(after: position)) {
                for change in try await transaction.changes.all() {
                    guard case .integer(let value)? = change.after?["v"] else { continue }
                    delivered.append(value)
                }
                position = transaction.token
            }
        }
        #expect(delivered == Array(0..<1000))
    }

    @Test("P2: clocks an hour apart, and one that steps back, lose nothing", arguments: [3600, -3600])
    func differentClocks(offset: Int) async throws {
        let clock = TestClock()
        let shifted = TestClock(microseconds: clock.microseconds + Int64(offset) * 1_000_000)
        var options = HistoryStore.Options()
        options.clock = clock
        var otherOptions = HistoryStore.Options()
        otherOptions.clock = shifted
        let temporary = try await TemporaryStore(schema: Self.schema, options: options)
        let other = try await HistoryStore.open(temporary.path, author: "other", options: otherOptions)
        var position = try await temporary.store.currentToken()
        var delivered: [Int64] = []
        for round in 0..<20 {
            try await temporary.write("INSERT INTO t(v) VALUES (1)")
            try await other.write { try $0.execute("INSERT INTO t(v) VALUES (2)") }
            clock.advance(by: .seconds(round % 3 == 0 ? -7200 : 1))
            for try await transaction in temporary.store.history(HistoryRequest(after: position)) {
                delivered.append(transaction.token.sequence)
                position = transaction.token
            }
        }
        #expect(delivered == Array(2...41))
        await other.close()
    }
}
