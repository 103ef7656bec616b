import Foundation
import PersistentHistory
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

@testable import HistoryMessaging

/// A golden message: `Golden/<name>.txt` says what was written, `Golden/<name>.json` is the body of its message, byte
/// for byte.
///
/// Sections of the text begin with `## `: `schema` and `write` are SQL (of a line each, `write` runs in one
/// transaction), `options` is the JSON of the tracking options, `context` the context name, `limit` the encoder's. What
/// is random or a clock's is fixed. With `TIDINGS_WRITE_GOLDEN=1` the tests write the bodies anew instead of comparing.
struct GoldenMessage {
    static let transactions = ["operations", "values", "keys", "options", "schema", "omitted"]
    static let others = ["acknowledgement", "control-request", "control-reply"]
    /// The events that are announced.
    static let announcements = ["epoch-changed", "refused-acknowledgement", "refused-command", "oversized-messages"]
    static let storeID = UUID(uuidString: "6F9619FF-8B86-D011-B42D-00C04FC964FF") ?? UUID()
    static let previousNonce: UInt64 = 0x0123_4567_89AB_CDEF
    static let isWriting = ProcessInfo.processInfo.environment["TIDINGS_WRITE_GOLDEN"] == "1"

    let name: String

    private static let directory = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "Golden")

    /// The path of the body.
    var path: String { Self.directory.appending(path: "\(name).json").path(percentEncoded: false) }

    /// The body as it is in the file.
    var body: [UInt8] { get throws { Array(try Data(contentsOf: URL(filePath: path))) } }

    /// Writes the body's file anew.
    func rewrite(_ body: [UInt8]) throws { try Data(body).write(to: URL(filePath: path)) }

    private var sections: [String: String] {
        get throws {
            let url = Self.directory.appending(path: "\(name).txt")
            let parts = try String(contentsOf: url, encoding: .utf8).components(separatedBy: "## ").dropFirst()
            return Dictionary(
                uniqueKeysWithValues: parts.map { part in
                    let lines = part.split(separator: "\n", maxSplits: 1).map(String.init)
                    return (lines[0], lines.count > 1 ? lines[1].trimmingCharacters(in: .newlines) : "")
                })
        }
    }

    /// The transaction, from a store that was made anew, and the body that the encoder writes for it.
    func encoded() async throws -> (transaction: HistoryTransaction, body: [UInt8], isThin: Bool) {
        let sections = try sections
        var options = HistoryStore.Options()
        options.clock = TestClock(microseconds: 1_796_000_000_123_456)
        let tracked = try sections["options"].map {
            try JSONDecoder().decode(TrackingOptions.self, from: Data($0.utf8))
        }
        let temporary = try await TemporaryStore(
            schema: sections["schema"] ?? "", options: options, tracked: tracked ?? TrackingOptions())
        try await temporary.write(sections["write"] ?? "", context: sections["context"])
        try await temporary.store.coordinate { db, _ in
            try db.execute("UPDATE history_store SET uuid = ?", Self.storeID.uuidString.lowercased())
            let nonce = Int64(bitPattern: 0xFEDC_BA98_7654_3210)
            let sql = "UPDATE history_transaction SET nonce = ?, origin = 'host:42:00000000000000ff'"
            try db.execute(sql, nonce)
        }
        let store = try await HistoryStore.openReadOnly(temporary.path)
        var last: HistoryTransaction?
        for try await transaction in store.history() { last = transaction }
        guard let transaction = last else { throw GoldenError() }
        var encoder = HistoryMessageEncoder(
            names: BrokerNames(prefix: "tidings", store: "main"), user: nil,
            limit: sections["limit"].flatMap { Int($0) } ?? 256 << 10)
        let (message, isThin) = try await encoder.encode(transaction, previousNonce: Self.previousNonce)
        return (transaction, message.body, isThin)
    }

    /// The bodies of messages that carry no transaction.
    static func other(_ name: String) -> [UInt8] {
        let token = HistoryToken(storeID: storeID, epoch: 1, sequence: 42, nonce: previousNonce)
        switch name {
        case "acknowledgement":
            return AcknowledgementMessage(consumer: "search-1", author: "search", token: token).message(user: nil).body
        case "control-request":
            let arguments: [String: ControlValue] = [
                "consumer": "search-1", "author": "search", "role": "required", "token": .string(token.description),
                "pages": 3, "force": true, "note": nil,
            ]
            return ControlRequest("register", arguments: arguments).message(user: nil).body
        default:
            let reply = ControlReply(
                isOK: false, service: "cleaner", code: "cleaningBlocked", message: "search-1 has never acknowledged",
                remedy: "start search-1, or evict it", fields: ["floor": .string(token.description), "state": nil])
            return reply.message(answering: ControlRequest("clean").message(user: nil)).body
        }
    }

    /// The body of an event's announcement.
    static func announcement(_ event: String) -> [UInt8] {
        let messages = CleanerMessages(names: BrokerNames(prefix: "tidings", store: "main"), user: nil, store: "main")
        var acknowledgement = AMQPMessage("")
        acknowledgement.properties.userID = "search"
        let publication =
            switch event {
            case "epoch-changed":
                messages.announcement(ofEpoch: 2, "a consumer has merged history that the store does not have")
            case "oversized-messages": messages.announcement(ofOversized: 3, in: messages.names.acknowledgementQueue)
            case "refused-acknowledgement":
                messages.announcement(
                    of: MessageRefusal(.beyondHead, "beyond the head", consumer: "search-1"), event,
                    acknowledgement)
            default: messages.announcement(of: MessageRefusal(.malformed, "no JSON"), event, AMQPMessage(""))
            }
        return publication.message.body
    }

    private struct GoldenError: Error {}
}
