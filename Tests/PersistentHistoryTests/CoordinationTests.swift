import Foundation
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

/// What agents need of a store besides reading and writing.
@Suite("Coordination", .timeLimit(.minutes(3)))
struct CoordinationTests {
    private static let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, v)"
    private struct Refused: Error {}

    // MARK: Writing the history's own tables

    @Test("what is coordinated gets no token, and the store's state is that of the same transaction")
    func coordinationIsNoHistory() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        let head = try await temporary.store.currentToken()
        let epoch = try await temporary.store.coordinate { db, state in
            try db.execute("UPDATE history_store SET published_sequence = 1")
            #expect(try state.head(db) == head)
            return state.epoch
        }
        #expect(epoch == 1)
        #expect(try await temporary.store.currentToken() == head)
        #expect(try await temporary.store.observe { _, state in state.publishedSequence } == 1)
    }

    @Test("coordination that fails is rolled back, and tells its own error")
    func coordinationRollsBack() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        await #expect(throws: Refused.self) {
            try await temporary.store.coordinate { db, _ in
                try db.execute("UPDATE history_store SET published_sequence = 1")
                throw Refused()
            }
        }
        #expect(try await temporary.store.observe { _, state in state.publishedSequence } == nil)
        await #expect(throws: HistoryError.self) {
            try await temporary.store.coordinate { db, _ in try db.execute("UPDATE nowhere SET x = 1") }
        }
        #expect(try await temporary.write("INSERT INTO t VALUES (1, 'a')")?.sequence == 2)
        #expect(try await temporary.latestChanges().map(\.short) == ["insert t{id=1} - {id=1 v='a'}"])
    }

    @Test("capture goes on rightly between coordinations, by statements prepared before and after them")
    func captureGoesOn() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        for number in 1...4 {
            let token = try await temporary.store.write { db in
                try db.execute("INSERT INTO t(id, v) VALUES (?, ?)", number, "v\(number)")
                try db.execute("UPDATE t SET v = 'w' WHERE id = ?", number)
            }.token
            #expect(token?.sequence == Int64(number) + 1)
            #expect(
                try await temporary.latestChanges().map(\.short) == [
                    "insert t{id=\(number)} - {id=\(number) v='v\(number)'}",
                    "update t{id=\(number)} {v='v\(number)'} {v='w'}",
                ])
            let isFailing = number == 2
            _ = try? await temporary.store.coordinate { db, _ in
                try db.execute("UPDATE history_store SET published_sequence = coalesce(published_sequence, 0) + 1")
                if isFailing { throw Refused() }
            }
        }
        #expect(try await temporary.store.observe { _, state in state.publishedSequence } == 3)
    }

    @Test("a coordination leaves no trace in the counts that users see")
    func countsStay() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        try await temporary.write("INSERT INTO t VALUES (41, 'a')")
        try await temporary.store.coordinate { db, _ in
            try db.execute(
                "INSERT INTO history_audit(id, time, kind, actor, count, detail) VALUES (7, 0, 'test', 'test', 0, '')")
        }
        let counts = try await temporary.store.write { db in [db.lastInsertedRowID, Int64(db.changes)] }.value
        #expect(counts == [41, 1])
    }

    @Test("a new epoch that was coordinated is that of the next token")
    func stateIsRefreshed() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        try await temporary.store.coordinate { db, _ in try db.execute("UPDATE history_store SET epoch = epoch + 1") }
        #expect(try await temporary.write("INSERT INTO t VALUES (1, 2)")?.epoch == 2)
        _ = try? await temporary.store.coordinate { db, _ in
            try db.execute("UPDATE history_store SET epoch = epoch + 1")
            throw Refused()
        }
        #expect(try await temporary.write("INSERT INTO t VALUES (2, 3)")?.epoch == 2)
        #expect(try await temporary.store.currentToken().sequence == 3)
    }

    @Test("what another program did to a tracked table is recorded by a coordination too, and told")
    func foreignSchemaChange() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        let commits = try await temporary.store.commits()
        let other = try await SQLiteConnection.open(temporary.path)
        try await other.run { db in try db.execute("ALTER TABLE t ADD COLUMN w") }
        await other.close()
        try await temporary.store.coordinate { _, _ in }
        let transaction = try #require(try await temporary.store.transaction(2))
        #expect(transaction.author == "tidings")
        #expect(try await transaction.schemaChanges().map(\.kind) == [.alter, .captureBreak])
        var iterator = commits.makeAsyncIterator()
        #expect(await iterator.next() != nil)
    }

    @Test("a store opened for reading only cannot be coordinated")
    func readOnly() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        let reading = try await HistoryStore.openReadOnly(temporary.path)
        #expect(temporary.store.isWritable && !reading.isWritable)
        await #expect(throws: HistoryError.self) { try await reading.coordinate { _, _ in } }
        await #expect(throws: HistoryError.self) { _ = try await reading.commits() }
        await reading.close()
    }

    // MARK: Commits

    @Test("commits are told as they happen, a burst as one, and the stream ends with the store")
    func commits() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        let first = try await temporary.store.commits()
        let second = try await temporary.store.commits()
        for number in 1...5 { try await temporary.write("INSERT INTO t VALUES (\(number), 0)") }
        var iterator = first.makeAsyncIterator()
        #expect(await iterator.next() != nil)
        try await temporary.write("UPDATE t SET v = 1")
        #expect(await iterator.next() != nil)
        // Nothing of these is a transaction of the history.
        try await temporary.write("UPDATE t SET v = v")
        try await temporary.store.coordinate { db, _ in try db.execute("UPDATE history_store SET epoch = epoch") }
        _ = try? await temporary.store.write { _ in throw Refused() }
        await temporary.store.close()
        #expect(await iterator.next() == nil)
        var count = 0
        for await _ in second { count += 1 }
        #expect(count == 1)
        await #expect(throws: HistoryError.self) { _ = try await temporary.store.commits() }
    }

    // MARK: Durability

    @Test("making durable succeeds with a log that is open, one that was checkpointed away, and none at all")
    func makeDurable() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        try await temporary.write("INSERT INTO t VALUES (1, 2)")
        try temporary.store.makeDurable()
        let other = try await SQLiteConnection.open(temporary.path)
        try await other.run { db in try db.execute("PRAGMA wal_checkpoint(TRUNCATE)") }
        await other.close()
        try temporary.store.makeDurable()
        // The descriptor of its own that was closed again has taken no lock of this process away.
        try await temporary.write("INSERT INTO t VALUES (2, 3)")
        try temporary.store.makeDurable()
        #expect(try await temporary.store.currentToken().sequence == 3)
        await temporary.store.close()
        try FileManager.default.removeItem(atPath: temporary.path + "-wal")
        try temporary.store.makeDurable()
    }

    @Test("a log that cannot be opened for syncing is an error: what is not durable is not published")
    func makeDurableFails() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        await temporary.store.close()
        let log = temporary.path + "-wal"
        try FileManager.default.removeItem(atPath: log)
        // A link to itself can be opened by nobody, whoever runs the test.
        try FileManager.default.createSymbolicLink(atPath: log, withDestinationPath: log)
        #expect(throws: HistoryError.self) { try temporary.store.makeDurable() }
    }

    @Test("the data version changes with each commit of whichever connection, and with nothing else")
    func dataVersion() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        let other = try await HistoryStore.open(temporary.path, author: "billing")
        var versions = [try await temporary.store.dataVersion()]
        try await temporary.write("INSERT INTO t VALUES (1, 2)")
        versions.append(try await temporary.store.dataVersion())
        _ = try await temporary.store.count()
        versions.append(try await temporary.store.dataVersion())
        try await other.write { db in try db.execute("DELETE FROM t") }
        versions.append(try await temporary.store.dataVersion())
        versions.append(try await temporary.store.dataVersion())
        #expect(versions[0] != versions[1] && versions[1] == versions[2])
        #expect(versions[2] != versions[3] && versions[3] == versions[4])
        await other.close()
        await temporary.store.close()
        await #expect(throws: HistoryError.self) { _ = try await temporary.store.dataVersion() }
    }

    // MARK: Fetching

    @Test("a page's token passes the transactions that a filter leaves out")
    func fetchPassesFiltered() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        let other = try await HistoryStore.open(temporary.path, author: "billing")
        for number in 1...3 { try await temporary.write("INSERT INTO t VALUES (\(number), 0)") }
        for _ in 0..<4 { try await other.write { db in try db.execute("UPDATE t SET v = v + 1") } }
        let head = try await temporary.store.currentToken()
        var request = HistoryRequest()
        request.authors = ["orders"]
        let all = try await temporary.store.fetch(request)
        #expect(all.transactions.map(\.token.sequence) == [1, 2, 3, 4])
        #expect(all.token == head && all.isAtEnd)
        request.authors = ["nobody"]
        let none = try await temporary.store.fetch(request)
        #expect(none.transactions.isEmpty && none.token == head && none.isAtEnd)
        await other.close()
    }

    @Test("pages follow one another by their tokens, to the head")
    func fetchPages() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        for number in 1...6 { try await temporary.write("INSERT INTO t VALUES (\(number), 0)") }
        var request = HistoryRequest(after: .beginning, pageSize: 3)
        var sequences: [[Int64]] = []
        var isAtEnd = false
        while !isAtEnd {
            let page = try await temporary.store.fetch(request)
            sequences.append(page.transactions.map(\.token.sequence))
            request.start = .token(page.token)
            isAtEnd = page.isAtEnd
        }
        #expect(sequences == [[1, 2, 3], [4, 5, 6], [7]])
        let head = try await temporary.store.currentToken()
        let nothing = try await temporary.store.fetch(HistoryRequest(after: head))
        #expect(nothing.transactions.isEmpty && nothing.token == head && nothing.isAtEnd)
    }

    @Test("nonces of the transactions before: from history, from the purge mark, and none of what is gone")
    func previousNonces() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        let root = try await temporary.store.oldestToken()
        for number in 1...5 { try await temporary.write("INSERT INTO t VALUES (\(number), 0)") }
        let nonces = try await temporary.transactions().map(\.token.nonce)
        #expect(try await temporary.store.previousNonces(of: [1, 2, 6]) == [root.nonce, nonces[0], nonces[4]])
        try await temporary.store.deleteHistory(before: .sequence(4))
        #expect(
            try await temporary.store.previousNonces(of: [2, 3, 4, 5, 7]) == [
                nil, nil, nonces[2], nonces[3], nonces[5],
            ])
        #expect(try await temporary.store.previousNonces(of: [8, 100]) == [nil, nil])
        #expect(try await temporary.store.previousNonces(of: []) == [])
    }

    // MARK: Consumers

    @Test("consumers are read in order of name, with the tokens that they have acknowledged")
    func consumers() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        #expect(try await temporary.store.consumers().isEmpty)
        let head = try await temporary.store.currentToken()
        let nonce = Int64(bitPattern: head.nonce)
        try await temporary.store.coordinate { db, _ in
            let sql = """
                INSERT INTO history_consumer(name, author, role, state, floor_sequence, epoch, sequence, nonce,
                    registered, acknowledged)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """
            try db.execute(sql, "b", "search", "required", "active", 0, 1, 1, nonce, 10, 20)
            try db.execute(sql, "a", "search", "optional", "evicted", 1, 1, Int64?.none, Int64?.none, 11, Int64?.none)
        }
        let consumers = try await temporary.store.consumers()
        #expect(consumers.map(\.name) == ["a", "b"])
        #expect(consumers[0].acknowledged == nil && consumers[0].acknowledgedAt == nil)
        #expect(consumers[0].state == .evicted && consumers[0].role == "optional" && consumers[0].floor == 1)
        #expect(consumers[1].acknowledged == head && consumers[1].acknowledgedAt == 20)
        #expect(consumers[1].state == .active && consumers[1].author == "search" && consumers[1].registeredAt == 10)
    }
}
