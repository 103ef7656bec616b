import Foundation
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

@testable import HistoryMessaging

@Suite("Hostile messages", .timeLimit(.minutes(5)))
struct HostileMessageTests {
    /// What any decoder of the four kinds makes of a body. Nothing but these errors may come out.
    private func decode(_ name: String, _ body: [UInt8]) throws(MessagingError) -> AnyHashable {
        switch name {
        case "acknowledgement": try AcknowledgementMessage(decoding: body)
        case "control-request": try ControlRequest(decoding: body)
        case "control-reply": try ControlReply(decoding: body)
        default: try HistoryMessage(decoding: body)
        }
    }

    /// A message's body, written from what was decoded.
    private func encode(_ value: AnyHashable) -> [UInt8] {
        switch value.base {
        case let value as AcknowledgementMessage: return value.message(user: nil).body
        case let value as ControlRequest: return value.message(user: nil).body
        case let value as ControlReply: return value.message(answering: .init("")).body
        case let value as HistoryMessage: return Self.encode(value)
        default: return []
        }
    }

    private static func encode(_ message: HistoryMessage) -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        let header = message.header
        writer.envelope(
            header, MessageIdentity(header.token), contextName: header.contextName, entities: header.entities,
            source: "/tidings/main")
        guard let changes = message.changes else {
            writer.omission()
            return writer.bytes
        }
        writer.key("data")
        writer.object { writer in
            writer.key("changes")
            writer.array { writer in for change in changes { writer.change(change) } }
            writer.key("schema")
            writer.schemaChanges(message.schemaChanges)
        }
        writer.endObject()
        return writer.bytes
    }

    /// Decodes what may be anything: an error of these kinds (false), or a value that stays the same through another
    /// message.
    private func check(_ name: String, _ body: [UInt8], _ note: Comment) -> Bool {
        do throws(MessagingError) {
            let value = try decode(name, body)
            // Foundation is not stricter: what is accepted here is JSON.
            #expect((try? JSONSerialization.jsonObject(with: Data(body))) != nil, note)
            #expect(try decode(name, encode(value)) == value, note)
            if let message = value.base as? HistoryMessage {
                #expect(try HistoryMessageHeader(decoding: body) == message.header, note)
            }
            return true
        } catch {
            #expect(error.code == .malformedMessage || error.code == .foreignVersion, note)
            #expect(error.code == .foreignVersion || error.message.contains(", at byte "), note)
            return false
        }
    }

    @Test("a message that is cut anywhere is malformed", arguments: GoldenMessage.transactions + GoldenMessage.others)
    func truncations(name: String) throws {
        let body = try GoldenMessage(name: name).body
        for length in 0..<body.count {
            let error = #expect(throws: MessagingError.self) { _ = try decode(name, Array(body.prefix(length))) }
            #expect(error?.code == .malformedMessage)
            if !GoldenMessage.others.contains(name) {
                #expect(throws: MessagingError.self) {
                    _ = try HistoryMessageHeader(decoding: Array(body.prefix(length)))
                }
            }
        }
    }

    @Test(
        "a changed message is an error or another message, and never more",
        arguments: GoldenMessage.transactions + GoldenMessage.others)
    func mutations(name: String) throws {
        let body = try GoldenMessage(name: name).body
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededGenerator(seed: seed)
        #expect(check(name, body, "the golden message"))
        var accepted = 0
        for round in 0..<3000 {
            var changed = body
            for _ in 0..<Int.random(in: 1...3, using: &random) { mutate(&changed, &random) }
            accepted += check(name, changed, "seed \(seed), round \(round)") ? 1 : 0
        }
        #expect((1..<1500).contains(accepted))
    }

    private func mutate(_ body: inout [UInt8], _ random: inout SeededGenerator) {
        guard body.count > 4 else { return }
        let place = Int.random(in: 0..<body.count, using: &random)
        let length = min(Int.random(in: 1...12, using: &random), body.count - place)
        switch Int.random(in: 0..<7, using: &random) {
        case 0: body[place] = UInt8.random(in: 0...255, using: &random)
        case 1: body[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
        case 2: body[place] = random.pick(Array(#"{}[],:"\0123456789-+.eEu$/ tfn"#.utf8))
        case 3: body.removeSubrange(place..<place + length)
        case 4:
            body.insert(contentsOf: body[place..<place + length], at: Int.random(in: 0...body.count, using: &random))
        case 5: body.insert(contentsOf: random.pick(Self.pieces), at: place)
        default: body.swapAt(place, Int.random(in: 0..<body.count, using: &random))
        }
    }

    private static let pieces: [[UInt8]] = [
        #"\ud800"#, #"\u0000"#, "\"", "1e999", "9223372036854775808", "[[[[[[[[", "{\"a\":", "null", "true",
        ",\"id\":\"\"",
        "\u{FEFF}", "é", "{\"$blob\":\"AA==\"}", ",\"data\":null",
    ].map { Array($0.utf8) }

    // MARK: One thing wrong

    private func replaced(_ text: String, _ replacement: String, in name: String = "operations") throws -> [UInt8] {
        let body = String(decoding: try GoldenMessage(name: name).body, as: UTF8.self)
        #expect(body.contains(text))
        return Array(body.replacingOccurrences(of: text, with: replacement).utf8)
    }

    @Test(
        "another version is told apart from a malformed message",
        arguments: [
            (#""specversion":"1.0""#, #""specversion":"2.0""#), ("transaction.v1", "transaction.v2"),
            (#"transaction.v1","time":"2026-11-30T00:53:20.123456Z""#, #"transaction.v9","time":7"#),
        ])
    func versions(text: String, replacement: String) throws {
        let body = try replaced(text, replacement)
        let error = #expect(throws: MessagingError.self) { try HistoryMessage(decoding: body) }
        #expect(error?.code == .foreignVersion)
        let headerError = #expect(throws: MessagingError.self) { try HistoryMessageHeader(decoding: body) }
        #expect(headerError?.code == .foreignVersion)
    }

    @Test(
        "an envelope with one thing wrong is refused, whole and for its header alone",
        arguments: [
            (#""specversion":"1.0","#, ""), (#""specversion":"1.0""#, #""specversion":1.0"#),
            ("tidings.history.transaction.v1", "other"), (#""source":"/tidings/main""#, #""source":"""#),
            (":1:2\"", ":1:02\""), (":1:2\"", ":2:2\""), (#""id":"6f96"#, #""id":"7f96"#),
            (#""store":"6f"#, #""store":"6F"#), (#""store":"6f9619ff-"#, #""store":"6f9619ff"#),
            (#""epoch":"1""#, #""epoch":1"#), (#""epoch":"1""#, #""epoch":"0""#), (#""epoch":"1""#, #""epoch":"-1""#),
            (#""sequence":"0000000000000000002""#, #""sequence":"9999999999999999999""#),
            (#""sequence":"0000000000000000002""#, #""sequence":"00000000000000000002""#),
            (#""sequence":"0000000000000000002","#, ""), (#""nonce":"fedc"#, #""nonce":"FEDC"#),
            (#""nonce":"fedc"#, #""nonce":"fed"#), (#""nonce":"fedc"#, #""nonce":"+edc"#),
            (#""previousnonce":"0123"#, #""previousnonce":"x123"#), (#""author":"orders""#, #""author":"""#),
            (#""author":"orders""#, #""author":null"#), (#""author":"orders","#, ""),
            (#""author":"orders""#, #""author":"orders","author":"orders""#), ("2026-11-30T", "2026-13-30T"),
            ("article,place", "article,%"), ("article,place", "%ff"), (#""changecount":"9""#, #""changecount":9"#),
            (#""changecount":"9""#, #""changecount":"9","omitted":true"#),
            (#""changecount":"9""#, #""changecount":"9","omitted":"false""#),
            (#""datacontenttype":"application/json""#, #""datacontenttype":"text/plain""#), (#""data":"#, #""dato":"#),
        ])
    func envelope(text: String, replacement: String) throws {
        let body = try replaced(text, replacement)
        let error = #expect(throws: MessagingError.self) { try HistoryMessage(decoding: body) }
        #expect(error?.code == .malformedMessage)
        let headerError = #expect(throws: MessagingError.self) { try HistoryMessageHeader(decoding: body) }
        #expect(headerError?.message == error?.message)
    }

    @Test(
        "a change with one thing wrong is refused",
        arguments: [
            (#""changecount":"9""#, #""changecount":"8""#), (#""op":"insert""#, #""op":"upsert""#),
            (#""op":"insert""#, #""op":"update""#), (#""op":"delete""#, #""op":"insert""#),
            (#""before":null"#, #""before":{}"#), (#""after":null"#, #""after":{}"#),
            (#""key":{"id":1}"#, #""key":{}"#),
            (#""key":{"id":1}"#, #""key":[1]"#), (#""key":{"id":1},"#, ""), (#""id":1,"title""#, #""title":1,"title""#),
            (#""changed":["id"]"#, #""changed":[]"#), (#""changed":["id"]"#, #""changed":["id",1]"#),
            (#""changed":[]"#, #""changed":["id"]"#), (#""entity":"article","#, ""), (#""id":3"#, #""id":true"#),
            (#""changes":["#, #""changes":[null,"#), (#""data":{"changes":"#, #""data":{"change":"#),
        ])
    func change(text: String, replacement: String) throws {
        let body = try replaced(text, replacement)
        let error = #expect(throws: MessagingError.self) { try HistoryMessage(decoding: body) }
        #expect(error?.code == .malformedMessage)
    }

    @Test("members that nobody knows are skipped, everywhere")
    func unknownMembers() throws {
        let body = try replaced("{\"entity\":", "{\"future\":[{\"x\":1}],\"entity\":")
        let text = String(decoding: body, as: UTF8.self)
            .replacingOccurrences(of: "{\"specversion\"", with: "{\"traceparent\":\"00-1\",\"specversion\"")
            .replacingOccurrences(of: "\"data\":{", with: "\"data\" : {\"more\":{}, ")
        let golden = try HistoryMessage(decoding: try GoldenMessage(name: "operations").body)
        #expect(try HistoryMessage(decoding: Array(text.utf8)) == golden)
    }

    @Test(
        "acknowledgements, commands and replies with one thing wrong are refused",
        arguments: [
            ("acknowledgement", #""epoch":1"#, #""epoch":0"#), ("acknowledgement", #""epoch":1"#, #""epoch":1.0"#),
            ("acknowledgement", #""sequence":42"#, #""sequence":-1"#),
            ("acknowledgement", #""sequence":42"#, #""sequence":9223372036854775808"#),
            ("acknowledgement", #""sequence":42"#, #""sequence":"42""#),
            ("acknowledgement", #""sequence":42,"#, ""), ("acknowledgement", #""nonce":"0123"#, #""nonce":"123"#),
            ("acknowledgement", #""consumer":"search-1""#, #""consumer":"""#),
            ("acknowledgement", #""author":"search""#, #""author":"search","author":"x""#),
            ("control-request", #""command":"register""#, #""command":"""#),
            ("control-request", #""command":"register","#, ""), ("control-request", #""pages":3"#, #""pages":3.5"#),
            ("control-request", #""pages":3"#, #""pages":[3]"#), ("control-request", #""pages":3"#, #""force":3"#),
            ("control-request", #""arguments":{"#, #""arguments":[{"#),
            ("control-reply", #""ok":false,"#, ""), ("control-reply", #""ok":false"#, #""ok":"no""#),
            ("control-reply", #""service":"cleaner","#, ""), ("control-reply", #""state":null"#, #""state":{}"#),
            ("control-reply", #""state":null"#, #""ok":true"#),
        ])
    func others(name: String, text: String, replacement: String) throws {
        let body = try replaced(text, replacement, in: name)
        let error = #expect(throws: MessagingError.self) { _ = try decode(name, body) }
        #expect(error?.code == .malformedMessage)
    }

    @Test("what is large and wrong costs no more than reading it once")
    func large() throws {
        let golden = String(decoding: try GoldenMessage(name: "operations").body, as: UTF8.self)
        let start = try #require(golden.range(of: "\"data\":"))
        let head = String(golden[..<start.lowerBound])
        let size = 4 << 20
        let hostile: [[UInt8]] = [
            Array(repeating: 0x5B, count: size), Array(repeating: 0x22, count: size),
            Array(repeating: 0x5C, count: size),
            Array((head + "\"data\":" + String(repeating: "[", count: size)).utf8),
            Array((head + "\"data\":\"" + String(repeating: "\\u00", count: size / 4)).utf8),
            Array((head + "\"data\":" + String(repeating: "9", count: size) + "}").utf8),
            Array((head + "\"data\":{\"changes\":[" + String(repeating: "{},", count: size / 3)).utf8),
            Array((head + (0..<size / 12).map { "\"m\($0)\":1," }.joined() + "\"m0\":2}").utf8),
            Array((head + "\"data\":{\"changes\":[" + String(repeating: " ", count: size)).utf8),
        ]
        for body in hostile {
            let error = #expect(throws: MessagingError.self) { try HistoryMessage(decoding: body) }
            #expect(error?.code == .malformedMessage)
            #expect((error?.message.utf8.count ?? 0) < 200)
        }
    }
}
