/// Exchanges, queues and bindings that a program needs, as one value: declared together, in this order, as often as
/// wished, since declaring what exists already changes nothing.
public struct AMQPTopology: Sendable, Hashable {
    /// The exchanges.
    public var exchanges: [AMQPExchange]
    /// The queues.
    public var queues: [AMQPQueue]
    /// The bindings of queues to exchanges.
    public var bindings: [AMQPBinding]

    /// Makes a topology.
    public init(exchanges: [AMQPExchange] = [], queues: [AMQPQueue] = [], bindings: [AMQPBinding] = []) {
        self.exchanges = exchanges
        self.queues = queues
        self.bindings = bindings
    }

    /// True where there is nothing to declare.
    public var isEmpty: Bool { exchanges.isEmpty && queues.isEmpty && bindings.isEmpty }

    /// Adds what another has; of two things by the same name the other's is kept.
    public mutating func merge(_ other: AMQPTopology) {
        exchanges.removeAll { mine in other.exchanges.contains { $0.name == mine.name } }
        queues.removeAll { mine in other.queues.contains { $0.name == mine.name } }
        exchanges += other.exchanges
        queues += other.queues
        bindings += other.bindings.filter { !bindings.contains($0) }
    }

    /// Throws `invalid` where something in it can never be declared.
    func check() throws(AMQPError) {
        for exchange in exchanges {
            try Self.check(name: exchange.name)
            try MessageLimits.checkShort("exchange's type", exchange.type.rawValue)
            try MessageLimits.checkTable("the arguments of exchange '\(exchange.name)'", exchange.arguments)
        }
        for queue in queues {
            try Self.check(name: queue.name)
            try MessageLimits.checkTable("the arguments of queue '\(queue.name)'", queue.arguments)
        }
        for binding in bindings {
            try Self.check(name: binding.queue)
            try Self.check(name: binding.exchange)
            try MessageLimits.checkShort("binding's key", binding.key)
            try MessageLimits.checkTable("the arguments of a binding of '\(binding.queue)'", binding.arguments)
        }
    }

    private static func check(name: String) throws(AMQPError) {
        guard !name.isEmpty else { throw AMQPError(.invalid, "a queue or exchange of the topology has no name") }
        try MessageLimits.checkShort("name", name)
    }

    /// Takes out a queue and its bindings.
    mutating func removeQueue(_ name: String) {
        queues.removeAll { $0.name == name }
        bindings.removeAll { $0.queue == name }
    }

    /// Takes out an exchange and the bindings to it.
    mutating func removeExchange(_ name: String) {
        exchanges.removeAll { $0.name == name }
        bindings.removeAll { $0.exchange == name }
    }
}

/// An exchange: where messages are published to.
public struct AMQPExchange: Sendable, Hashable {
    /// How an exchange chooses the queues. Open: plugins add types.
    public struct Kind: RawRepresentable, Sendable, Hashable {
        /// The name of the type.
        public let rawValue: String

        /// Makes a type from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// By the whole key.
        public static let direct = Kind(rawValue: "direct")
        /// By a pattern of the key's words, with `*` for one word and `#` for any number.
        public static let topic = Kind(rawValue: "topic")
        /// Every queue.
        public static let fanout = Kind(rawValue: "fanout")
        /// By headers.
        public static let headers = Kind(rawValue: "headers")
    }

    /// The name.
    public var name: String
    /// How it chooses queues.
    public var type: Kind
    /// True where it outlives the broker's restart.
    public var isDurable: Bool
    /// True where it goes with its last binding.
    public var isAutoDelete: Bool
    /// Further arguments, such as `alternate-exchange`.
    public var arguments: AMQPTable

    /// Describes an exchange; durable unless said otherwise.
    public init(
        _ name: String, _ type: Kind, isDurable: Bool = true, isAutoDelete: Bool = false, arguments: AMQPTable = [:]
    ) {
        self.name = name
        self.type = type
        self.isDurable = isDurable
        self.isAutoDelete = isAutoDelete
        self.arguments = arguments
    }
}

/// A queue: where messages wait.
public struct AMQPQueue: Sendable, Hashable {
    /// The name. Never empty: a name that the broker invents cannot be declared again.
    public var name: String
    /// True where it outlives the broker's restart.
    public var isDurable: Bool
    /// True where it serves this connection alone, and goes with it.
    public var isExclusive: Bool
    /// True where it goes with its last consumer.
    public var isAutoDelete: Bool
    /// `x-queue-type` and the like; limits and lifetimes belong into a policy.
    public var arguments: AMQPTable

    /// Describes a queue; a durable classic one unless said otherwise.
    public init(
        _ name: String, isDurable: Bool = true, isExclusive: Bool = false, isAutoDelete: Bool = false,
        arguments: AMQPTable = [:]
    ) {
        self.name = name
        self.isDurable = isDurable
        self.isExclusive = isExclusive
        self.isAutoDelete = isAutoDelete
        self.arguments = arguments
    }

    /// Describes a quorum queue: durable, and held by a majority of the cluster's nodes.
    /// [Quorum queues](https://www.rabbitmq.com/docs/quorum-queues)
    public static func quorum(_ name: String, arguments: AMQPTable = [:]) -> AMQPQueue {
        var all = arguments
        all["x-queue-type"] = "quorum"
        return AMQPQueue(name, arguments: all)
    }
}

/// A binding: which messages of an exchange go to a queue.
public struct AMQPBinding: Sendable, Hashable {
    /// The queue.
    public var queue: String
    /// The exchange.
    public var exchange: String
    /// The key, or the pattern of keys.
    public var key: String
    /// Headers to match, and the like.
    public var arguments: AMQPTable

    /// Describes a binding.
    public init(queue: String, exchange: String, key: String, arguments: AMQPTable = [:]) {
        self.queue = queue
        self.exchange = exchange
        self.key = key
        self.arguments = arguments
    }
}
