import Foundation
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

@testable import HistoryMessaging

@Suite("Messages of transactions", .timeLimit(.minutes(5)))
struct RoundTripTests {
    @Test("a transaction's message reads back as its changes, under an id and properties that tell what it is")
    func transaction() async throws {
        let temporary = try await TemporaryStore(
            schema:
                "CREATE TABLE article(id INTEGER PRIMARY KEY, title TEXT); CREATE TABLE \"a,b%\"(id INTEGER PRIMARY KEY)"
        )
        try await temporary.write("INSERT INTO article VALUES (1, 'é'); INSERT INTO \"a,b%\" VALUES (2)", context: "c")
        let transaction = try #require(try await temporary.transactions().last)
        var encoder = HistoryMessageEncoder(names: BrokerNames(prefix: "p", store: "main"), user: "u")
        let (message, isThin) = try await encoder.encode(transaction, previousNonce: 7)
        #expect(!isThin)
        let decoded = try HistoryMessage(decoding: message.body)
        #expect(decoded.header == HistoryMessageHeader(transaction, previousNonce: 7))
        #expect(decoded.header == (try HistoryMessageHeader(decoding: message.body)))
        let changes = try await transaction.changes.all().map { $0.decoded() }
        #expect(decoded.changes == changes)
        #expect(decoded.schemaChanges.isEmpty)
        #expect(decoded.header.entities == ["article", "a,b%"])
        let token = transaction.token
        #expect(
            message.properties.messageID
                == "\(token.storeID.uuidString.lowercased()):\(token.epoch):\(token.sequence)")
        #expect(message.properties.contentType == "application/cloudevents+json")
        #expect(message.properties.type == "tidings.history.transaction.v1")
        #expect(message.properties.applicationID == "orders")
        #expect(message.properties.userID == "u")
        #expect(message.properties.isPersistent)
        #expect(message.properties.timestamp == UInt64(transaction.microseconds / 1_000_000))
    }
}
