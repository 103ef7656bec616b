import PersistentHistory
import Testing
import TidingsAMQP
import TidingsTestKit

@testable import HistoryMessaging

/// A broker that takes no messages as large as the publisher's limit allows.
@Suite("The broker's own limit", .timeLimit(.minutes(2)))
struct BrokerLimitTests {
    @Test("P18: what is larger than the broker takes goes without its changes, all else whole, and publishing goes on")
    func configured() async throws {
        let server = try await PrivateBroker.start(.init(settings: ["max_message_size": "65536"]))
        let fixture = try await PublishingFixture(on: server)
        let events = CleanerEvents()
        var options = HistoryPublisher.Options()
        options.logger = events
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker, options: options)
        let large = "INSERT INTO item(v) VALUES (hex(zeroblob(100000)))"
        let thin = try await withServices(publisher) {
            try await fixture.insert(5)
            let first = try #require(try await fixture.temporary.write(large))
            try await publisher.waitUntilPublished(through: try await fixture.insert(5))
            // What the broker has said is known: the next one is not refused any more.
            let refused = await publisher.status().unknown
            #expect(refused > 0)
            let second = try #require(try await fixture.temporary.write(large))
            try await publisher.waitUntilPublished(through: try await fixture.insert(1))
            #expect(await publisher.status().unknown == refused)
            return [first, second]
        }
        let headers = try await fixture.messages().map { try HistoryMessageHeader(decoding: $0.body) }
        #expect(headers.filter(\.isOmitted).map(\.token) == thin)
        #expect(headers.filter(\.isOmitted).map(\.changeCount) == [1, 1])
        let whole = Set(headers.filter { !$0.isOmitted }.map(\.token))
        #expect(whole == Set(try await fixture.committedTokens()).subtracting(thin))
        #expect(await publisher.status().thin == 2)
        let warnings = events.messages(from: .warning)
        #expect(warnings.count == 1)
        #expect(warnings.first?.contains("raise its max_message_size") == true)
        await server.shutDown()
    }

    @Test(
        "the broker's words tell its limit; no other error does",
        arguments: [
            ("publishing: PRECONDITION_FAILED - message size 200123 is larger than configured max size 65536", 65536),
            ("publishing: PRECONDITION_FAILED - message size 200123 is larger than max size 134217728", 134_217_728),
            ("publishing: PRECONDITION_FAILED - message size 200123 is larger than configured max size", nil),
            ("publishing: PRECONDITION_FAILED - inequivalent arg 'max size 7' for queue 'q' in vhost '/'", nil),
            ("publishing: PRECONDITION_FAILED - invalid expiration '-1'", nil),
        ])
    func words(text: String, limit: Int?) {
        #expect(AMQPError(.preconditionFailed, text, replyCode: 406).sizeLimit == limit)
        #expect(AMQPError(.closedByBroker, text, replyCode: 311).sizeLimit == nil)
    }

    @Test("a whole message made thin is the thin message of the transaction, byte for byte")
    func sameThinMessage() async throws {
        let temporary = try await TemporaryStore(schema: PublishingFixture.schema)
        try await temporary.write("INSERT INTO item(v) VALUES (hex(zeroblob(20000)))", context: "é\"\\")
        let transaction = try #require(try await temporary.transactions().last)
        let names = BrokerNames(prefix: "tidings", store: "main")
        var encoder = HistoryMessageEncoder(names: names, user: "u")
        var narrow = HistoryMessageEncoder(names: names, user: "u", limit: 4096)
        let whole = try await encoder.encode(transaction, previousNonce: 7)
        let thin = try await narrow.encode(transaction, previousNonce: 7)
        #expect(!whole.isThin && thin.isThin)
        #expect(try narrow.thin(of: whole.message) == thin.message)
        #expect(try narrow.thin(of: thin.message) == nil)
    }
}
