import Foundation
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

@testable import HistoryMessaging

@Suite("The limit of a message", .timeLimit(.minutes(5)))
struct LimitTests {
    private let names = BrokerNames(prefix: "p", store: "main")

    private func encoded(
        _ transaction: HistoryTransaction, limit: Int
    ) async throws -> (message: AMQPMessage, isThin: Bool) {
        var encoder = HistoryMessageEncoder(names: names, user: nil, limit: limit)
        return try await encoder.encode(transaction, previousNonce: nil)
    }

    @Test("P18: a message of exactly the limit is sent whole, one byte over the thin form is", arguments: [0, 1])
    func exactly(schemaRecords: Int) async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        let alter = schemaRecords == 0 ? "" : "; ALTER TABLE t ADD COLUMN w"
        let text = String(repeating: "x", count: 10_000)
        try await temporary.write("INSERT INTO t VALUES (1, '\(text)'), (2, 'y')\(alter)")
        let transaction = try #require(try await temporary.transactions().last)
        let whole = try await encoded(transaction, limit: 1 << 20)
        let size = whole.message.body.count
        #expect(!whole.isThin)
        #expect(try await encoded(transaction, limit: size).message == whole.message)
        let thin = try await encoded(transaction, limit: size - 1)
        #expect(thin.isThin)
        #expect(thin.message.body.count < 1000)
        #expect(thin.message.properties == whole.message.properties)
        let header = try HistoryMessageHeader(decoding: whole.message.body)
        let thinHeader = try HistoryMessageHeader(decoding: thin.message.body)
        #expect(!header.isOmitted)
        #expect(thinHeader == header.omitting())
        let decoded = try HistoryMessage(decoding: thin.message.body)
        #expect(decoded == HistoryMessage(header: thinHeader, changes: nil, schemaChanges: []))
        #expect(try HistoryMessage(decoding: whole.message.body).schemaChanges.count == schemaRecords)
    }

    @Test("of a transaction of many parts no more is read than fits")
    func parts() async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 200000)"
        try await temporary.write("INSERT INTO t \(rows) SELECT i, 'some text or other' FROM n")
        // Without its later parts the transaction cannot be read to its end.
        try await temporary.store.coordinate { db, _ in
            try db.execute("DELETE FROM history_chunk WHERE (chunk & 1048575) > 1")
        }
        let transaction = try #require(try await temporary.transactions().last)
        #expect(!transaction.changes.isInMemory)
        var encoder = HistoryMessageEncoder(names: names, user: nil)
        let (message, isThin) = try await encoder.encode(transaction, previousNonce: nil)
        #expect(isThin)
        #expect(try HistoryMessageHeader(decoding: message.body).changeCount == 200_000)
        #expect(encoder.capacity <= 2 * (256 << 10))
    }

    @Test("a transaction of several parts that fits is sent whole")
    func severalParts() async throws {
        var options = HistoryStore.Options()
        options.spillThreshold = 64
        let temporary = try await TemporaryStore(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)", options: options)
        let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100)"
        try await temporary.write("INSERT INTO t \(rows) SELECT i, 'some text or other' FROM n")
        let transaction = try #require(try await temporary.transactions().last)
        let (message, isThin) = try await encoded(transaction, limit: 256 << 10)
        #expect(!isThin)
        let changes = try await transaction.changes.all().map { $0.decoded() }
        #expect(try HistoryMessage(decoding: message.body).changes == changes)
    }

    @Test(
        "a value larger than the limit is not even written",
        arguments: ["zeroblob(10000000)", "printf('%.10000000c', 'z')"])
    func value(sql: String) async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        try await temporary.write("INSERT INTO t VALUES (1, \(sql))")
        let transaction = try #require(try await temporary.transactions().last)
        var encoder = HistoryMessageEncoder(names: names, user: nil)
        #expect(try await encoder.encode(transaction, previousNonce: nil).isThin)
        #expect(encoder.capacity < 64 << 10)
    }

    @Test("an envelope that does not fit leaves out its entities, then its context name")
    func envelope() async throws {
        let schema = (0..<400).map { "CREATE TABLE a_table_with_a_name_\($0)(id INTEGER PRIMARY KEY);" }.joined()
        let temporary = try await TemporaryStore(schema: schema)
        let inserts = (0..<400).map { "INSERT INTO a_table_with_a_name_\($0) VALUES (1);" }.joined()
        try await temporary.write(inserts, context: "c")
        try await temporary.write(
            "INSERT INTO a_table_with_a_name_1 VALUES (2)", context: String(repeating: "c", count: 5000))
        let transactions = try await temporary.transactions().suffix(2)
        let many = try await encoded(try #require(transactions.first), limit: 4096)
        #expect(many.isThin)
        #expect(many.message.body.count <= 4096)
        let header = try HistoryMessageHeader(decoding: many.message.body)
        #expect(header.entities == [])
        #expect(header.contextName == "c")
        #expect(header.changeCount == 400)
        let long = try await encoded(try #require(transactions.last), limit: 4096)
        #expect(long.isThin)
        #expect(try HistoryMessageHeader(decoding: long.message.body).contextName == nil)
        #expect(try await !encoded(try #require(transactions.first), limit: 256 << 10).isThin)
    }

    @Test("a small message behind a large one takes no more memory than it needs, nor does the buffer change")
    func memory() async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        try await temporary.write("INSERT INTO t VALUES (1, printf('%.200000c', 'z'))")
        try await temporary.write("INSERT INTO t VALUES (2, 'y')")
        let transactions = try await temporary.transactions().suffix(2)
        var encoder = HistoryMessageEncoder(names: names, user: nil)
        let large = try await encoder.encode(try #require(transactions.first), previousNonce: nil).message
        let capacity = encoder.capacity
        let small = try await encoder.encode(try #require(transactions.last), previousNonce: nil).message
        #expect(large.body.count > 200_000)
        #expect(small.body.count < 1000)
        #expect(small.body.capacity < 2000)
        #expect(encoder.capacity == capacity)
    }
}
