import Foundation
import HistoryMessaging
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsTestKit

@Suite("Names at the broker")
struct BrokerNamesTests {
    private let names = BrokerNames(prefix: "tidings", store: "shop")

    @Test("Exchanges, queues and keys have the names that the documentation tells")
    func plain() {
        #expect(
            names.exchanges.map(\.name) == [
                "tidings.history", "tidings.acks", "tidings.control", "tidings.replies", "tidings.notify",
                "tidings.dead",
            ])
        #expect(names.queue(of: "index-1") == "tidings.shop.index-1")
        #expect(names.historyKey(author: "orders") == "history.shop.orders")
        #expect(names.acknowledgementKey(consumer: "index-1") == "ack.shop.index-1")
        #expect(names.controlKey(service: "cleaner", command: "dry-run") == "control.shop.cleaner.dry-run")
        #expect(names.notifyKey("epoch-changed") == "notify.shop.epoch-changed")
    }

    /// What everybody declares besides its own queues.
    private static let exchanges = [
        AMQPExchange("tidings.history", .topic), AMQPExchange("tidings.acks", .topic),
        AMQPExchange("tidings.control", .topic), AMQPExchange("tidings.replies", .direct),
        AMQPExchange("tidings.notify", .topic), AMQPExchange("tidings.dead", .topic),
    ]
    /// The queue of dead messages: bounded, the oldest go.
    private static let deadQueue = AMQPQueue(
        "tidings.$dead", arguments: ["x-max-length": 10_000, "x-overflow": "drop-head"])
    private static let deadBinding = AMQPBinding(queue: "tidings.$dead", exchange: "tidings.dead", key: "#")

    @Test("A consumer declares a bounded quorum queue with one active consumer, that expires and has no dead letters")
    func consumersTopology() {
        let arguments: AMQPTable = [
            "x-single-active-consumer": true, "x-max-length": 100_000, "x-overflow": "drop-head",
            "x-expires": 2_592_000_000, "x-queue-type": "quorum",
        ]
        let expected = AMQPTopology(
            exchanges: Self.exchanges,
            queues: [Self.deadQueue, AMQPQueue("tidings.shop.index-1", arguments: arguments)],
            bindings: [
                Self.deadBinding,
                AMQPBinding(queue: "tidings.shop.index-1", exchange: "tidings.history", key: "history.shop.#"),
            ])
        #expect(names.consuming(as: "index-1") == expected)
        var shorter = arguments
        shorter["x-max-length"] = 7
        #expect(names.consuming(as: "index-1", length: 7).queues.last?.arguments == shorter)
    }

    @Test("The cleaner declares two quorum queues with a delivery limit; a publisher no queue")
    func servicesTopology() {
        let arguments: AMQPTable = ["x-delivery-limit": 20, "x-queue-type": "quorum"]
        let control = "tidings.shop.$control.cleaner"
        let expected = AMQPTopology(
            exchanges: Self.exchanges,
            queues: [
                Self.deadQueue, AMQPQueue("tidings.shop.$acks", arguments: arguments),
                AMQPQueue(control, arguments: arguments),
            ],
            bindings: [
                Self.deadBinding,
                AMQPBinding(queue: "tidings.shop.$acks", exchange: "tidings.acks", key: "ack.shop.*"),
                AMQPBinding(queue: control, exchange: "tidings.control", key: "control.shop.cleaner.*"),
                AMQPBinding(queue: control, exchange: "tidings.control", key: "control.shop.all.*"),
            ])
        #expect(names.cleaning == expected)
        #expect(names.publishing == AMQPTopology(exchanges: Self.exchanges))
        // All of them outlive the broker's restart, and nothing goes by itself.
        let queues = expected.queues + names.consuming(as: "a").queues
        #expect(queues.allSatisfy { $0.isDurable && !$0.isExclusive && !$0.isAutoDelete })
        #expect(names.exchanges.allSatisfy { $0.isDurable && !$0.isAutoDelete })
    }

    @Test(
        "What would change a key's meaning is escaped",
        arguments: [
            ("a.b", "a%2Eb"), ("*", "%2A"), ("#", "%23"), ("a b", "a%20b"), ("ä", "%C3%A4"), ("50%", "50%25"),
            ("$acks", "%24acks"), ("a_b-C9", "a_b-C9"),
        ])
    func escaped(name: String, word: String) {
        #expect(names.acknowledgementKey(consumer: name) == "ack.shop.\(word)")
        #expect(BrokerNames(prefix: "tidings", store: name).allHistory == "history.\(word).#")
    }

    @Test("No consumer's queue is one of the services' own")
    func separate() {
        let own = [names.acknowledgementQueue, names.controlQueue(of: "cleaner"), names.deadQueue]
        for name in ["$acks", "acks", "$control.cleaner", "$dead", "cleaner"] {
            #expect(!own.contains(names.queue(of: name)))
        }
    }

    @Test("Long names are cut, stay different, and fit into keys of 255 bytes")
    func long() {
        let store = String(repeating: "ü", count: 64)
        let names = BrokerNames(prefix: "tidings", store: store)
        let consumers = (0..<100).map { String(repeating: "é", count: 60) + "\($0)" }
        let queues = consumers.map { names.queue(of: $0) }
        #expect(Set(queues).count == 100)
        #expect(queues.allSatisfy { $0.utf8.count <= 255 })
        #expect(names.controlKey(service: store, command: store).utf8.count <= 255)
        // A name of exactly the longest length is not cut.
        let exact = String(repeating: "x", count: 72)
        #expect(names.queue(of: exact).hasSuffix(".\(exact)"))
    }

    @Test("The store's name is its file's without what follows the last dot, unless another is given")
    func storeName() async throws {
        let temporary = try await TemporaryStore()
        #expect(Broker.none.names(for: temporary.store).store == "store")
        #expect(Broker(nil, storeName: "main").names(for: temporary.store).store == "main")
    }

    @Test("The environment tells the broker; without it there is none; no error shows a password")
    func environment() throws {
        #expect(try Broker.environment([:]).configuration == nil)
        let broker = try Broker.environment([
            "TIDINGS_AMQP_URL": "amqp://u:secret@h:1/v", "TIDINGS_PREFIX": "p", "TIDINGS_STORE_NAME": "s",
        ])
        #expect(broker.configuration?.endpoints.map(\.description) == ["h:1 (virtual host 'v')"])
        #expect(broker.user == "u" && broker.prefix == "p" && broker.storeName == "s")
        let directory = try TemporaryDirectory()
        let file = directory.file("url")
        try Data("amqp://u:secret@h:2/v\nmore\n".utf8).write(to: URL(filePath: file))
        #expect(try Broker.environment(["TIDINGS_AMQP_URL_FILE": file]).configuration?.endpoints[0].port == 2)
        #expect {
            try Broker.environment(["TIDINGS_AMQP_URL": "amqp://u:secret@h:port"])
        } throws: { error in
            (error as? AMQPError)?.code == .invalid && !"\(error)".contains("secret")
        }
        #expect {
            try Broker.environment(["TIDINGS_AMQP_URL_FILE": "/nowhere"])
        } throws: { error in
            (error as? MessagingError)?.code == .invalid
        }
    }

    @Test("The user is the URLs', or is told where certificates log in; two of them are none")
    func users() throws {
        let certificate = "amqps://h?cacertfile=/a&certfile=/c&keyfile=/k&auth_mechanism=EXTERNAL"
        #expect(try Broker(urls: "amqp://u:secret@one,amqp://u:secret@two").user == "u")
        #expect(try Broker(urls: certificate).user == nil)
        #expect(try Broker(urls: certificate, user: "c").user == "c")
        #expect(try Broker.environment(["TIDINGS_AMQP_URL": certificate, "TIDINGS_BROKER_USER": "c"]).user == "c")
        #expect(try Broker(urls: "\(certificate),amqp://c:secret@two", user: "c").user == "c")
        var changed = try Broker(urls: certificate)
        changed.user = "c"
        #expect(changed.user == "c")
        for (urls, user) in [("amqp://u:secret@one,amqp://v:secret@two", nil), ("amqp://u:secret@one", "c")] {
            #expect {
                try Broker(urls: urls, user: user)
            } throws: { error in
                guard let error = error as? AMQPError else { return false }
                return error.code == .invalid && error.message.contains("user") && !"\(error)".contains("secret")
            }
        }
    }
}
