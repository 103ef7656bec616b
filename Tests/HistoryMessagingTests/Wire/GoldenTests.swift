import Foundation
import PersistentHistory
import Testing
import TidingsTestKit

@testable import HistoryMessaging

@Suite("Golden messages", .timeLimit(.minutes(5)))
struct GoldenTests {
    @Test(
        "the encoder writes the golden messages byte for byte, and they read back",
        arguments: GoldenMessage.transactions)
    func transaction(name: String) async throws {
        let golden = GoldenMessage(name: name)
        let (transaction, body, isThin) = try await golden.encoded()
        if GoldenMessage.isWriting { try golden.rewrite(body) }
        #expect(String(decoding: body, as: UTF8.self) == String(decoding: try golden.body, as: UTF8.self))
        #expect(try golden.body == body)
        #expect(isThin == (name == "omitted"))
        let message = try HistoryMessage(decoding: try golden.body)
        let header = HistoryMessageHeader(transaction, previousNonce: GoldenMessage.previousNonce)
        #expect(message.header == (isThin ? header.omitting() : header))
        #expect(message.changes == (isThin ? nil : try await transaction.changes.all().map { $0.decoded() }))
        #expect(message.schemaChanges == (try await transaction.schemaChanges()))
        #expect(message.schemaChanges.isEmpty == (name != "schema"))
    }

    @Test("acknowledgements, commands and replies are written as their golden ones", arguments: GoldenMessage.others)
    func other(name: String) throws {
        let golden = GoldenMessage(name: name)
        let body = GoldenMessage.other(name)
        if GoldenMessage.isWriting { try golden.rewrite(body) }
        #expect(String(decoding: body, as: UTF8.self) == String(decoding: try golden.body, as: UTF8.self))
    }

    @Test("announcements are written as their golden ones", arguments: GoldenMessage.announcements)
    func announcement(event: String) throws {
        let golden = GoldenMessage(name: "announcement-\(event)")
        let body = GoldenMessage.announcement(event)
        if GoldenMessage.isWriting { try golden.rewrite(body) }
        #expect(String(decoding: body, as: UTF8.self) == String(decoding: try golden.body, as: UTF8.self))
    }
}
