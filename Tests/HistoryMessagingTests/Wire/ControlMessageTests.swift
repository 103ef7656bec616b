import Foundation
import PersistentHistory
import Testing
import TidingsAMQP

@testable import HistoryMessaging

@Suite("Control messages and acknowledgements")
struct ControlMessageTests {
    private let token = HistoryToken(
        storeID: UUID(uuidString: "6F9619FF-8B86-D011-B42D-00C04FC964FF") ?? UUID(), epoch: 2, sequence: 43,
        nonce: 0x00FF_1234_5678_9ABC)

    @Test("an acknowledgement is persistent JSON under an id of consumer and token, and reads back")
    func acknowledgement() throws {
        let sent = AcknowledgementMessage(consumer: "search", author: "orders", token: token)
        let message = sent.message(user: "search-user")
        let text =
            #"{"store":"6f9619ff-8b86-d011-b42d-00c04fc964ff","epoch":2,"sequence":43,"#
            + #""nonce":"00ff123456789abc","consumer":"search","author":"orders"}"#
        #expect(String(decoding: message.body, as: UTF8.self) == text)
        #expect(
            message.properties.messageID
                == "search:6f9619ff-8b86-d011-b42d-00c04fc964ff:2:43:00ff123456789abc")
        #expect(message.properties.isPersistent)
        #expect(message.properties.userID == "search-user")
        #expect(message.properties.contentType == "application/json")
        #expect(message.properties.type == "tidings.acknowledgement.v1")
        #expect(message.properties.applicationID == "orders")
        #expect(try AcknowledgementMessage(decoding: message.body) == sent)
    }

    @Test("a command reads back with every kind of argument")
    func request() throws {
        let sent = ControlRequest(
            "register", arguments: ["consumer": "search", "pages": 3, "force": true, "token": nil])
        let message = sent.message(user: nil)
        #expect(
            String(decoding: message.body, as: UTF8.self)
                == #"{"command":"register","arguments":{"consumer":"search","force":true,"pages":3,"token":null}}"#)
        #expect(message.properties.userID == nil)
        #expect(try ControlRequest(decoding: message.body) == sent)
        #expect(try ControlRequest(decoding: Array(#"{"command":"status"}"#.utf8)) == ControlRequest("status"))
    }

    @Test("a reply answers under the request's correlation id, else under its message id")
    func reply() throws {
        let sent = ControlReply(
            isOK: false, service: "cleaner", code: "cleaningBlocked", message: "blocked by search", remedy: "evict it",
            fields: ["floor": "t", "waiting": .integer(.max), "ok": false])
        var request = ControlRequest("clean").message(user: nil)
        request.properties.messageID = "m"
        #expect(sent.message(answering: request).properties.correlationID == "m")
        request.properties.correlationID = "c"
        let message = sent.message(answering: request)
        #expect(message.properties.correlationID == "c")
        let text =
            #"{"ok":false,"service":"cleaner","code":"cleaningBlocked","message":"blocked by search","#
            + #""remedy":"evict it","floor":"t","waiting":9223372036854775807}"#
        #expect(String(decoding: message.body, as: UTF8.self) == text)
        var expected = sent
        expected.fields["ok"] = nil
        #expect(try ControlReply(decoding: message.body) == expected)
        let fine = ControlReply(isOK: true, service: "relay", message: "")
        #expect(try ControlReply(decoding: fine.message(answering: request).body) == fine)
    }
}
