import Foundation
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

@testable import HistoryMessaging

@Suite("Messages of transactions", .timeLimit(.minutes(5)))
struct RoundTripTests {
    private let names = BrokerNames(prefix: "p", store: "main")

    @Test("a message has the id and properties of its transaction, and tells what its envelope says")
    func properties() async throws {
        let schema = "CREATE TABLE article(id INTEGER PRIMARY KEY); CREATE TABLE \"a,b%\"(id INTEGER PRIMARY KEY)"
        let temporary = try await TemporaryStore(schema: schema)
        try await temporary.write("INSERT INTO article VALUES (1); INSERT INTO \"a,b%\" VALUES (2)", context: "c")
        let transaction = try #require(try await temporary.transactions().last)
        var encoder = HistoryMessageEncoder(names: names, user: "u")
        let (message, isThin) = try await encoder.encode(transaction, previousNonce: 7)
        #expect(!isThin)
        let header = try HistoryMessageHeader(decoding: message.body)
        #expect(header == HistoryMessageHeader(transaction, previousNonce: 7))
        #expect(header.entities == ["article", "a,b%"])
        #expect(header.previousNonce == 7)
        #expect(header.contextName == "c")
        #expect(header.changeCount == 2)
        let id = "\(transaction.token.storeID.uuidString.lowercased()):1:2"
        var expected = AMQPProperties(contentType: "application/cloudevents+json", messageID: id)
        expected.type = "tidings.history.transaction.v1"
        expected.applicationID = "orders"
        expected.userID = "u"
        expected.timestamp = UInt64(transaction.microseconds / 1_000_000)
        #expect(message.properties == expected)
        #expect(try await encoder.encode(transaction, previousNonce: 7).message == message)
    }

    @Test("what is decoded equals what was encoded, over random transactions of every kind of table and value")
    func roundTrip() async throws {
        let temporary = try await RandomRows.makeStore()
        let seed = UInt64.random(in: 0...UInt64.max)
        var rows = RandomRows(random: SeededGenerator(seed: seed))
        var written = 0
        while written < 400 { written += try await rows.write(to: temporary.store) ? 1 : 0 }
        var encoder = HistoryMessageEncoder(names: names, user: nil)
        var previous: UInt64?
        var kinds: Set<HistoryChange.Operation> = []
        var renames = 0
        for try await transaction in temporary.store.history() {
            let (message, isThin) = try await encoder.encode(transaction, previousNonce: previous)
            previous = transaction.token.nonce
            let decoded = try HistoryMessage(decoding: message.body)
            let changes = try await transaction.changes.all().map { $0.decoded() }
            #expect(!isThin, "seed \(seed)")
            #expect(decoded.changes == changes, "seed \(seed)")
            #expect(decoded.header == (try HistoryMessageHeader(decoding: message.body)))
            #expect(decoded.schemaChanges == (try await transaction.schemaChanges()))
            kinds.formUnion(changes.map(\.operation))
            renames += changes.count { $0.newKey != nil }
        }
        #expect(kinds == Set(HistoryChange.Operation.allCases))
        #expect(renames > 10)
    }

    @Test("changes that are written from their encoded bytes look as decoded ones do")
    func directly() async throws {
        let temporary = try await RandomRows.makeStore()
        let seed = UInt64.random(in: 0...UInt64.max)
        var rows = RandomRows(random: SeededGenerator(seed: seed))
        for _ in 0..<300 { _ = try await rows.write(to: temporary.store) }
        var direct = ChangeWriter(limit: .max)
        for try await change in temporary.store.changes() {
            direct.json.removeAll()
            #expect(try direct.write(change))
            var decoded = JSONWriter()
            decoded.change(change.decoded())
            #expect(direct.json.bytes == decoded.bytes, "seed \(seed)")
        }
    }

    @Test("every kind of schema record reads back")
    func schemaRecords() async throws {
        let kinds: [HistorySchemaChange.Kind] = [.track, .untrack, .alter, .rebuild, .drop, .captureBreak]
        let records = kinds.map {
            HistorySchemaChange(kind: $0, entity: "t\"é", columns: ["id", "a,b"], detail: $0 == .drop ? "" : "why")
        }
        var writer = JSONWriter()
        writer.object { writer in
            writer.key("schema")
            writer.schemaChanges(records)
            writer.key("changes")
            writer.array { _ in }
        }
        var reader = JSONReader(writer.bytes, subject: "test")
        #expect(try reader.transactionData().schemaChanges == records)
    }

    @Test(
        "names of entities read back from their list, whatever they are",
        arguments: [
            ["article"], [""], ["", "a"], ["a", "", ""], ["a,b", "%", "é", "e\u{301}", "\0\u{7F}", "a b~c-d.e_f"],
        ])
    func names(names: [String]) throws {
        let list = MessageText.list(names)
        #expect(list.utf8.allSatisfy { 0x21...0x7E ~= $0 })
        #expect(try #require(MessageText.names(list)).map { Array($0.utf8) } == names.map { Array($0.utf8) })
    }
}
