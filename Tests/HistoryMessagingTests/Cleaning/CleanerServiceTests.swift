import Foundation
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

@testable import HistoryMessaging

@Suite("The cleaner as a service", .serialized, .timeLimit(.minutes(2)))
struct CleanerServiceTests {
    @Test("a consumer registers by a request, gets its floor, acknowledges, and history is cleaned behind it")
    func roundTrip() async throws {
        let fixture = try await CleanerFixture()
        let alice = try await fixture.host.addUser()
        var options = fixture.options
        options.strategy = .byAcknowledgements(2)
        let cleaner = try await fixture.cleaning(options) { cleaner in
            try await fixture.peer(alice) { peer in
                let arguments: [String: ControlValue] = ["consumer": "search", "author": "orders", "role": "required"]
                let reply = try await peer.request("register", arguments)
                #expect(reply.isOK && reply.service == "cleaner" && reply.code == nil)
                #expect(reply.fields == ["floor": .string(fixture.tokens[19].description), "state": "active"])
                let record = try #require(try await fixture.store.consumers().first)
                #expect(record.name == "search" && record.user == alice.user && record.floor == 20)
                // Again, with a token: the floor goes down to it, since history is still there.
                var again = arguments
                again["token"] = .string(fixture.tokens[4].description)
                let floor = try await peer.request("register", again).fields["floor"]
                #expect(floor == .string(fixture.tokens[4].description))
                for sequence in [7, 9] { try await peer.acknowledge(fixture.tokens[sequence - 1], as: "search") }
                try await fixture.events.wait { try await fixture.temporary.sequences().first == 9 }
                #expect(try await fixture.acknowledged() == ["search": 9])
            }
            return cleaner
        }
        let status = await cleaner.status()
        #expect(status.recorded == 2 && status.refused == [:] && status.commands == 2 && status.removed == 8)
        #expect(status.cleanings >= 1)
        // What was dealt with was acked.
        let left = try await fixture.peer { try await $0.connection.inspect(queue: fixture.names.acknowledgementQueue) }
        #expect(left.messages == 0)
    }

    @Test("P29: what is forged, foreign or not vouched for is refused, counted, kept with the reason, and announced")
    func refusedAcknowledgements() async throws {
        let fixture = try await CleanerFixture()
        let alice = try await fixture.host.addUser()
        let bob = try await fixture.host.addUser()
        try await fixture.register("a", user: alice.user, acknowledged: 5)
        try await fixture.register("b", user: bob.user)
        let good = fixture.tokens[9]
        let beyond = HistoryToken(storeID: good.storeID, epoch: 1, sequence: 99, nonce: 1)
        let expected = [
            "foreignExchange", "noUser", "otherEpoch", "otherKey", "otherStore", "otherUser", "otherUser",
            "unregistered",
        ]
        let cleaner = try await fixture.cleaning { cleaner in
            try await fixture.peer(alice) { peer in
                let (dead, announced) = try await peer.watch()
                try await peer.acknowledge(
                    HistoryToken(storeID: good.storeID, epoch: 5000, sequence: 10, nonce: good.nonce), as: "a")
                try await peer.acknowledge(
                    HistoryToken(storeID: UUID(), epoch: 1, sequence: 10, nonce: good.nonce), as: "a")
                try await peer.acknowledge(good, as: "a") { $0.properties.userID = nil }
                try await peer.acknowledge(good, as: "a", straight: true)
                try await peer.acknowledge(good, as: "a", underKeyOf: "b")
                try await peer.acknowledge(good, as: "nobody")
                try await fixture.peer(bob) { peer in
                    try await peer.acknowledge(good, as: "a")
                    // Proof of a lost lineage, were it the consumer's own user who gives it.
                    try await peer.acknowledge(beyond, as: "a")
                }
                let kept = try await dead.messages(expected.count)
                #expect(kept.compactMap { $0.header("tidings-reason") }.sorted() == expected)
                #expect(kept.allSatisfy { $0.properties.userID == fixture.host.user })
                #expect(Set(kept.compactMap { $0.header("tidings-user") }) == [alice.user, bob.user])
                #expect(kept.allSatisfy { (try? AcknowledgementMessage(decoding: $0.body)) != nil })
                let told = try await announced.messages(expected.count)
                #expect(told.allSatisfy { $0.text.hasPrefix(#"{"event":"refused-acknowledgement","#) })
                #expect(told.contains { $0.text.contains(#""consumer":"nobody""#) })
                #expect(try await fixture.acknowledged() == ["a": 5])
                // The service goes on.
                try await peer.acknowledge(good, as: "a")
                try await fixture.events.wait { try await fixture.acknowledged() == ["a": 10] }
                #expect(try await fixture.store.currentToken().epoch == 1)
            }
            return cleaner
        }
        let status = await cleaner.status()
        let refused = Dictionary(expected.map { ($0, 1) }, uniquingKeysWith: +)
        #expect(status.refused == refused)
        #expect(status.dead == 8 && status.recorded == 1)
    }

    @Test("a foreign registration of a consumer that registered in the store itself frees nothing, and is logged")
    func foreignClaim() async throws {
        let fixture = try await CleanerFixture()
        let mallory = try await fixture.host.addUser()
        try await fixture.store.register(consumer: "a", author: "orders", token: fixture.tokens[4])
        try await fixture.register("b", user: fixture.host.user, acknowledged: 15)
        var options = fixture.options
        options.batchAuthors = ["import"]
        try await fixture.cleaning(options) { cleaner in
            try await fixture.peer(mallory) { peer in
                let arguments: [String: ControlValue] = ["consumer": "a", "author": "import", "role": "optional"]
                let reply = try await peer.request("register", arguments)
                #expect(reply.isOK)
                let blocking = try await cleaner.dryRun().obstacles.map(\.name)
                #expect(blocking == ["a"])
            }
        }
        let record = try #require(try await fixture.store.consumers().first)
        #expect(record.user == mallory.user && record.role == "required" && record.author == "orders")
        #expect(
            fixture.events.messages(from: .warning).contains("a user of the broker's claimed a consumer of the store's")
        )
    }

    @Test(
        "P28, P29: a consumer's own proof of a lost lineage is refused, and begins a new epoch that all are told of",
        arguments: ["beyondHead", "otherNonce", "laterEpoch"])
    func lostLineage(reason: String) async throws {
        let fixture = try await CleanerFixture()
        let alice = try await fixture.host.addUser()
        for name in ["a", "b"] { try await fixture.register(name, user: alice.user, acknowledged: 5) }
        let lost = HistoryToken(
            storeID: fixture.store.storeID, epoch: reason == "laterEpoch" ? 4 : 1,
            sequence: reason == "beyondHead" ? 21 : 20, nonce: 4711)
        let epoch = lost.epoch + 1
        var options = fixture.options
        options.strategy = .byAcknowledgements(1)
        options.users = ["a": alice.user]
        options.commandUsers = ["clean": [alice.user]]
        let cleaner = try await fixture.cleaning(options) { cleaner in
            try await fixture.peer(alice) { peer in
                let (dead, announced) = try await peer.watch()
                try await peer.acknowledge(lost, as: "a")
                #expect(try await dead.messages(1).first?.header("tidings-reason") == reason)
                let told = try await announced.messages(2).map(\.text)
                #expect(
                    told.contains { $0.contains(#""event":"epoch-changed""#) && $0.contains(#""epoch":\#(epoch)"#) })
                #expect(told.contains { $0.contains(#""reason":"\#(reason)""#) })
                let records = try await fixture.store.consumers()
                #expect(records.allSatisfy { $0.state == .resyncing && $0.acknowledged == nil })
                // The other one's word of before counts no more, and proves nothing.
                try await peer.acknowledge(fixture.tokens[9], as: "b")
                #expect(try await dead.messages(1).first?.header("tidings-reason") == "otherEpoch")
                // Nothing is purged until both are back.
                let head = try await fixture.store.currentToken()
                #expect(head.epoch == epoch)
                try await peer.acknowledge(head, as: "a")
                try await fixture.events.wait { try await fixture.acknowledged()["a"] == 20 }
                let blocked = try await peer.request("clean")
                #expect(!blocked.isOK && blocked.code == "cleaningBlocked" && blocked.message.contains("consumer b"))
                #expect(try await fixture.temporary.sequences().count == 20)
                try await peer.acknowledge(head, as: "b")
                try await fixture.events.wait { try await fixture.temporary.sequences() == [20] }
            }
            return cleaner
        }
        let status = await cleaner.status()
        #expect(status.newEpochs == 1)
        #expect(status.refused == [reason: 1, "otherEpoch": 1])
        let audit = try await fixture.store.read { try $0.rows("SELECT kind, count FROM history_audit ORDER BY id") }
        #expect(audit == [["epoch", .integer(epoch)], ["purge", 19]])
    }

    @Test(
        "P15: malformed, oversized, foreign and hostile messages on both queues: kept with the reason, and it goes on")
    func poison() async throws {
        let fixture = try await CleanerFixture()
        let user = fixture.host.user
        try await fixture.register("a", user: user)
        let key = fixture.names.acknowledgementKey(consumer: "a")
        let acks = AMQPAddress(exchange: fixture.names.acknowledgements, routingKey: key)
        let register = AMQPAddress(
            exchange: fixture.names.control,
            routingKey: fixture.names.controlKey(service: "cleaner", command: "register"))
        @Sendable func message(_ text: String) -> AMQPMessage {
            var message = AMQPMessage(text)
            message.properties.userID = user
            return message
        }
        let malformed = [
            "", "null", "[]", "{", "\u{0}", #"{"consumer":"a"}"#, String(repeating: "[", count: 50_000),
            #"{"command":7}"#, #"{"store":"x","epoch":-1,"sequence":1e99,"nonce":"","consumer":"a","author":"a"}"#,
            #"{"command":"register","arguments":{"consumer":{"a":[]}}}"#,
        ]
        let cleaner = try await fixture.cleaning { cleaner in
            try await fixture.peer { peer in
                let (dead, _) = try await peer.watch()
                for address in [acks, register] {
                    for text in malformed { try await peer.send(message(text), to: address) }
                    try await peer.send(message(String(repeating: " ", count: 70_000)), to: address)
                    try await peer.send(message(String(repeating: " ", count: 600_000)), to: address)
                    var foreign = message("{}")
                    foreign.properties.type = "tidings.acknowledgement.v2"
                    try await peer.send(foreign, to: address)
                    var hostile = message("{}")
                    hostile.properties.headers = ["x": .string(String(repeating: "h", count: 100_000))]
                    hostile.properties.replyTo = fixture.names.acknowledgementQueue
                    hostile.properties.messageID = String(repeating: "m", count: 255)
                    try await peer.send(hostile, to: address)
                }
                let straight = ControlRequest("register", arguments: ["consumer": "x", "author": "y"])
                try await peer.send(
                    straight.message(user: user), to: .queue(fixture.names.controlQueue(of: "cleaner")))
                let kept = try await dead.messages(2 * (malformed.count + 4) + 1)
                let reasons = Dictionary(grouping: kept) { $0.header("tidings-reason") ?? "" }.mapValues(\.count)
                #expect(
                    reasons == [
                        "malformed": 2 * (malformed.count + 1), "oversized": 4, "foreignVersion": 2,
                        "foreignExchange": 1,
                    ])
                // The largest are named by their size only.
                let cut = kept.filter { $0.body.isEmpty && $0.properties.headers["tidings-size"] == 600_000 }
                #expect(cut.count == 2)
                // A malformed command that asks for a reply gets one.
                let reply = try await peer.request("register") { $0.body = Array("{}".utf8) }
                #expect(!reply.isOK && reply.code == "malformed")
                try await peer.acknowledge(fixture.tokens[9], as: "a")
                try await fixture.events.wait { try await fixture.acknowledged() == ["a": 10] }
            }
            return cleaner
        }
        #expect(await cleaner.status().refused.values.reduce(0, +) == 2 * (malformed.count + 4) + 2)
        #expect(try await fixture.store.consumers().map(\.name) == ["a"])
    }

    @Test("P15: 2 MiB on either queue: rejected unread, counted, logged and announced, and it goes on")
    func oversized() async throws {
        let fixture = try await CleanerFixture()
        let (user, names) = (fixture.host.user, fixture.names)
        try await fixture.register("a", user: user)
        let addresses = [
            AMQPAddress(
                exchange: names.acknowledgements, routingKey: names.acknowledgementKey(consumer: "a")),
            AMQPAddress(
                exchange: names.control, routingKey: names.controlKey(service: "cleaner", command: "register")),
        ]
        var options = fixture.options
        options.tick = .milliseconds(20)
        let cleaner = try await fixture.cleaning(options) { cleaner in
            try await fixture.peer { peer in
                let (_, announced) = try await peer.watch()
                var large = AMQPMessage([UInt8](repeating: 0x20, count: 2 << 20))
                large.properties.userID = user
                for address in addresses { try await peer.send(large, to: address) }
                let told = try await announced.messages(2).map(\.text).sorted()
                let queues = [names.acknowledgementQueue, names.controlQueue(of: "cleaner")]
                #expect(
                    told
                        == queues.map {
                            #"{"event":"oversized-messages","service":"cleaner","store":"\#(names.store)","#
                                + #""count":1,"queue":"\#($0)"}"#
                        })
                try await peer.acknowledge(fixture.tokens[9], as: "a")
                try await fixture.events.wait { try await fixture.acknowledged() == ["a": 10] }
                #expect(try await peer.request("status").fields["oversized"] == 2)
            }
            return cleaner
        }
        let status = await cleaner.status()
        #expect(status.oversized == 2)
        #expect(status.refused == [:] && status.dead == 0)
        let warning = "messages were rejected unread: they are larger than 1048576 bytes"
        #expect(fixture.events.messages(from: .warning) == [warning, warning])
        // Nothing comes again.
        let left = try await fixture.peer { peer in
            try await peer.connection.inspect(queue: names.acknowledgementQueue).messages
                + peer.connection.inspect(queue: names.controlQueue(of: "cleaner")).messages
        }
        #expect(left == 0)
    }

    @Test("commands: clean, dry-run, status; also to all; another's list of users; what it does not know")
    func commands() async throws {
        let fixture = try await CleanerFixture()
        let bob = try await fixture.host.addUser()
        try await fixture.register("a", user: fixture.host.user, acknowledged: 15)
        var options = fixture.options
        options.commandUsers = ["clean": [fixture.host.user]]
        try await fixture.cleaning(options) { _ in
            try await fixture.peer(bob) { peer in
                let reply = try await peer.request("clean")
                #expect(!reply.isOK && reply.code == "notAllowed")
                #expect(try await peer.request("dry-run").fields["count"] == 14)
            }
            try await fixture.peer { peer in
                let status = try await peer.request("status", service: "all")
                #expect(status.isOK && status.fields["head"] == 20 && status.fields["consumers"] == 1)
                #expect(
                    status.fields["epoch"] == 1 && status.fields["holders"] == "a" && status.fields["blocked"] == .null)
                #expect(try await fixture.temporary.sequences().count == 20)
                let cleaned = try await peer.request("clean")
                #expect(cleaned.isOK && cleaned.fields["count"] == 14)
                #expect(cleaned.fields["bound"] == .string(fixture.tokens[14].description))
                #expect(try await fixture.temporary.sequences() == Array(15...20))
                let unknown = try await peer.request("explode")
                #expect(!unknown.isOK && unknown.code == "unknownCommand" && unknown.remedy != nil)
                let incomplete = try await peer.request("register", ["consumer": "x"])
                #expect(!incomplete.isOK && incomplete.code == "invalid")
                let noToken = try await peer.request("register", ["consumer": "x", "author": "y", "token": "z"])
                #expect(!noToken.isOK && noToken.code == "invalid")
                let foreign = try await peer.request("register", ["consumer": "a", "author": "y", "role": "king"])
                #expect(!foreign.isOK && foreign.code == "invalidRequest")
            }
        }
    }

    @Test("the same message id gets the same reply, and is carried out once; another user's does not")
    func repeatedCommand() async throws {
        let fixture = try await CleanerFixture()
        let bob = try await fixture.host.addUser()
        try await fixture.register("a", user: fixture.host.user, acknowledged: 15)
        var options = fixture.options
        options.commandUsers = ["clean": [fixture.host.user, bob.user]]
        try await fixture.cleaning(options) { cleaner in
            try await fixture.peer { peer in
                let first = try await peer.request("clean", id: "one")
                #expect(first.fields["count"] == 14)
                #expect(try await peer.request("clean", id: "one") == first)
                #expect(try await peer.request("clean", id: "two").fields["count"] == 0)
            }
            try await fixture.peer(bob) { peer in
                let reply = try await peer.request("clean", id: "one")
                #expect(reply.fields["count"] == 0)
            }
            #expect(await cleaner.status().cleanings == 3)
        }
    }

    @Test(
        "P34: registrations by request while a cleaning goes on in chunks: none waits for its end, no floor is passed")
    func registrationDuringCleaning() async throws {
        let fixture = try await CleanerFixture(transactions: 300)
        try await fixture.register("a", user: fixture.host.user, acknowledged: 300)
        var options = fixture.options
        options.chunk = 2
        options.commandUsers = ["clean": [fixture.host.user]]
        try await fixture.cleaning(options) { _ in
            try await fixture.peer { peer in
                try await withThrowingTaskGroup(of: ControlReply.self) { group in
                    group.addTask { try await peer.request("clean") }
                    // It has begun.
                    try await fixture.events.wait { try await fixture.temporary.purged().mark.sequence > 0 }
                    let reply = try await peer.request(
                        "register",
                        ["consumer": "late", "author": "orders", "token": .string(fixture.tokens[299].description)])
                    #expect(reply.isOK)
                    let mark = try await fixture.temporary.purged().mark.sequence
                    let cleaned = try #require(try await group.next())
                    #expect(cleaned.isOK && cleaned.fields["count"] == .integer(mark))
                    #expect(cleaned.fields["blocked"]?.text?.contains("consumer late") == true)
                    #expect(mark < 299)
                    #expect(try await fixture.temporary.purged().mark.sequence == mark)
                }
            }
        }
    }

    @Test("with certificates the user is told: a consumer registers and acknowledges, and is refused without")
    func certificates() async throws {
        let fixture = try await CleanerFixture()
        let server = fixture.host.broker
        let certificates = try #require(server.options.tls)
        let port = UInt16(try #require(server.tlsPort))
        let endpoint = AMQPEndpoint(
            host: "localhost", port: port, virtualHost: fixture.host.name, credentials: .external,
            tls: TLSOptions(
                authorityFile: certificates.authority, certificateFile: certificates.client.certificate,
                keyFile: certificates.client.key))
        let login = try await fixture.host.addUser(named: TestCertificates.clientUser)
        var broker = Broker(AMQPConfiguration([endpoint], name: "test"))
        #expect(broker.user == nil)
        broker.user = login.user
        let (store, names, certified) = (fixture.store, fixture.names, broker)
        let cleaner = HistoryCleaner(store, broker: certified, options: fixture.options)
        try await cleaner.running { _ in
            try await AMQPConnection.withConnection(AMQPConfiguration([endpoint], name: "test")) { connection in
                try await connection.declare(names.cleaning)
                let publisher = await connection.publisher()
                func peer(_ user: String?) -> CleanerPeer {
                    CleanerPeer(names: names, user: user, connection: connection, publisher: publisher)
                }
                let arguments: [String: ControlValue] = ["consumer": "a", "author": "orders"]
                let refused = try await peer(nil).request("register", arguments)
                #expect(!refused.isOK && refused.code == "noUser" && refused.message.contains("broker.user"))
                let accepted = try await peer(certified.user).request("register", arguments)
                #expect(accepted.isOK)
                try await peer(certified.user).acknowledge(fixture.tokens[9], as: "a")
                try await fixture.events.wait { try await fixture.acknowledged() == ["a": 10] }
            }
        }
        #expect(try await store.consumers().map(\.user) == [TestCertificates.clientUser])
        try await fixture.host.delete()
    }

    @Test("stopped as it starts it ends without an error, whatever has begun by then")
    func stoppedAtOnce() async throws {
        let fixture = try await CleanerFixture(transactions: 2)
        let link = try #require(
            try await CleanerLink(
                fixture.broker, names: fixture.names, log: ServiceLog(service: "cleaner", logger: SilentLogger())))
        await link.close(within: .zero)
        try await link.run()
        for _ in 0..<20 { try await fixture.cleaning { _ in } }
    }

    @Test("stopped and run again it goes on: what came meanwhile is taken, and a lost connection is survived")
    func runAgain() async throws {
        let fixture = try await CleanerFixture()
        try await fixture.register("a", user: fixture.host.user)
        let cleaner = HistoryCleaner(fixture.store, broker: fixture.broker, options: fixture.options)
        try await fixture.peer { peer in
            try await peer.acknowledge(fixture.tokens[4], as: "a")
            try await cleaner.running { _ in
                try await fixture.events.wait { try await fixture.acknowledged() == ["a": 5] }
            }
            try await peer.acknowledge(fixture.tokens[9], as: "a")
            #expect(try await fixture.acknowledged() == ["a": 5])
            try await cleaner.running { cleaner in
                try await fixture.events.wait { try await fixture.acknowledged() == ["a": 10] }
                // Its queue goes, and is made anew; then its connections.
                let broker = fixture.host.broker
                try await broker.deleteQueue(fixture.names.acknowledgementQueue, virtualHost: fixture.host.name)
                try await peer.acknowledgeUntilTaken(fixture.tokens[14], as: "a")
                try await fixture.events.wait { try await fixture.acknowledged() == ["a": 15] }
                try await broker.closeConnections(virtualHost: fixture.host.name)
                try await peer.acknowledgeUntilTaken(fixture.tokens[19], as: "a")
                try await fixture.events.wait { try await fixture.acknowledged() == ["a": 20] }
            }
        }
        #expect(await cleaner.status().recorded == 4)
    }
}
