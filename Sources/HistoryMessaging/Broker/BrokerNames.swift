public import TidingsAMQP

/// The names of a store's exchanges and queues, its routing keys, and how they are declared.
///
/// A name that stands between two dots of a key is percent-encoded where it holds anything but letters, digits, `-` and
/// `_`: a dot, `*` or `#` in it would change the key's meaning. Names are cut to fit keys of 255 bytes, the rest
/// replaced by a hash of the whole.
public struct BrokerNames: Sendable, Hashable {
    /// What all names begin with.
    public let prefix: String
    /// The store's name, encoded.
    public let store: String

    /// Names for a store.
    public init(prefix: String, store: String) {
        self.prefix = prefix
        self.store = Self.word(store)
    }

    /// The exchange that history is published to.
    public var history: String { "\(prefix).history" }
    /// The exchange of acknowledgements.
    public var acknowledgements: String { "\(prefix).acks" }
    /// The exchange of commands to services.
    public var control: String { "\(prefix).control" }
    /// The exchange of replies to them.
    public var replies: String { "\(prefix).replies" }
    /// The exchange of what services announce.
    public var notify: String { "\(prefix).notify" }
    /// The exchange of messages that nobody could use.
    public var dead: String { "\(prefix).dead" }

    /// The queue of a consumer.
    public func queue(of consumer: String) -> String { "\(prefix).\(store).\(Self.word(consumer))" }
    /// The queue of acknowledgements that the cleaner reads. A consumer's name cannot collide with it.
    public var acknowledgementQueue: String { "\(prefix).\(store).$acks" }
    /// The queue of commands to a service, such as `cleaner`.
    public func controlQueue(of service: String) -> String { "\(prefix).\(store).$control.\(Self.word(service))" }
    /// The queue of messages that nobody could use.
    public var deadQueue: String { "\(prefix).$dead" }

    /// The key of an author's history.
    public func historyKey(author: String) -> String { "history.\(store).\(Self.word(author))" }
    /// The pattern of all history of the store.
    public var allHistory: String { "history.\(store).#" }
    /// The key of a consumer's acknowledgements.
    public func acknowledgementKey(consumer: String) -> String { "ack.\(store).\(Self.word(consumer))" }
    /// The pattern of all acknowledgements.
    public var allAcknowledgements: String { "ack.\(store).*" }
    /// The key of a command; `all` is every service.
    public func controlKey(service: String, command: String) -> String {
        "control.\(store).\(Self.word(service)).\(Self.word(command))"
    }
    /// The pattern of all commands to a service.
    public func allCommands(to service: String) -> String { "control.\(store).\(Self.word(service)).*" }
    /// The key of an announcement.
    public func notifyKey(_ event: String) -> String { "notify.\(store).\(Self.word(event))" }

    /// The exchanges, as everybody declares them.
    public var exchanges: [AMQPExchange] {
        [
            AMQPExchange(history, .topic), AMQPExchange(acknowledgements, .topic), AMQPExchange(control, .topic),
            AMQPExchange(replies, .direct), AMQPExchange(notify, .topic), AMQPExchange(dead, .topic),
        ]
    }

    /// What a publisher needs: the exchanges.
    public var publishing: AMQPTopology { AMQPTopology(exchanges: exchanges) }

    /// What a consumer needs: the exchanges, its queue, the queue of dead messages.
    ///
    /// - Parameter length: the most messages that wait; the oldest are dropped then, since they are hints.
    public func consuming(as consumer: String, length: Int = 100_000) -> AMQPTopology {
        let name = queue(of: consumer)
        let queue = AMQPQueue.quorum(
            name,
            arguments: [
                "x-single-active-consumer": true, "x-max-length": .integer(Int64(length)), "x-overflow": "drop-head",
                "x-expires": .integer(Self.expiry),
            ])
        var topology = dying
        topology.queues.append(queue)
        topology.bindings.append(AMQPBinding(queue: name, exchange: history, key: allHistory))
        return topology
    }

    /// What the cleaner needs: the exchanges, its two queues, the queue of dead messages.
    public var cleaning: AMQPTopology {
        let acks = AMQPQueue.quorum(acknowledgementQueue, arguments: ["x-delivery-limit": 20])
        let commands = AMQPQueue.quorum(controlQueue(of: "cleaner"), arguments: ["x-delivery-limit": 20])
        var topology = dying
        topology.queues += [acks, commands]
        topology.bindings += [
            AMQPBinding(queue: acks.name, exchange: acknowledgements, key: allAcknowledgements),
            AMQPBinding(queue: commands.name, exchange: control, key: allCommands(to: "cleaner")),
            AMQPBinding(queue: commands.name, exchange: control, key: allCommands(to: "all")),
        ]
        return topology
    }

    /// The exchanges, and the bounded queue of dead messages.
    private var dying: AMQPTopology {
        let queue = AMQPQueue(deadQueue, arguments: ["x-max-length": 10_000, "x-overflow": "drop-head"])
        return AMQPTopology(
            exchanges: exchanges, queues: [queue],
            bindings: [AMQPBinding(queue: deadQueue, exchange: dead, key: "#")])
    }

    /// A queue that nobody has consumed for a month goes, in milliseconds.
    private static let expiry: Int64 = 30 * 24 * 3600 * 1000
    /// Three words and their prefix fit into 255 bytes.
    private static let longestWord = 72

    /// A name as one word of a routing key.
    static func word(_ name: String) -> String {
        var encoded: [UInt8] = []
        for byte in name.utf8 {
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x5F: encoded.append(byte)
            default:
                let digits = Array("0123456789ABCDEF".utf8)
                encoded += [0x25, digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        guard encoded.count > longestWord else { return String(decoding: encoded, as: UTF8.self) }
        // FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/
        let hash = name.utf8.reduce(UInt64(0xcbf2_9ce4_8422_2325)) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
        return String(decoding: encoded[..<(longestWord - 17)], as: UTF8.self) + "~" + String(hash, radix: 16)
    }
}
