/// What may be purged: strictly before everything that a consumer who has to be waited for still needs. Pure: values in,
/// a decision out.
public struct PurgeRules: Sendable, Hashable {
    /// Authors that each have to have a registered consumer.
    public var requiredAuthors: Set<String>
    /// Authors whose consumers nobody waits for: they write, and read nothing on.
    public var batchAuthors: Set<String>
    /// Authors whose transactions stay, unless ``cleansMirrors``: copies of what is kept elsewhere.
    public var mirrorAuthors: Set<String>
    /// True where mirror authors' transactions go as all others do.
    public var cleansMirrors: Bool

    /// Makes rules.
    public init(
        requiredAuthors: Set<String> = [], batchAuthors: Set<String> = [], mirrorAuthors: Set<String> = [],
        cleansMirrors: Bool = false
    ) {
        self.requiredAuthors = requiredAuthors
        self.batchAuthors = batchAuthors
        self.mirrorAuthors = mirrorAuthors
        self.cleansMirrors = cleansMirrors
    }

    /// The authors whose first transaction holds all behind it.
    package var holdingAuthors: Set<String> { cleansMirrors ? [] : mirrorAuthors }

    /// True where the consumer has to be waited for.
    package func isWaited(for consumer: ConsumerRecord) -> Bool {
        guard consumer.role == "required", !batchAuthors.contains(consumer.author) else { return false }
        return consumer.state != .lost && consumer.state != .evicted
    }

    /// Decides.
    ///
    /// - Parameters:
    ///   - consumers: all that are registered.
    ///   - mark: the purge mark, of the current epoch.
    ///   - firstMirror: the first transaction of ``holdingAuthors``.
    package func decide(
        _ consumers: [ConsumerRecord], mark: HistoryToken, firstMirror: HistoryToken? = nil
    ) -> PurgeDecision {
        let waited = consumers.filter(isWaited)
        var obstacles = requiredAuthors.subtracting(batchAuthors).sorted()
            .filter { author in !waited.contains { $0.author == author } }
            .map(PurgeObstacle.noConsumer(of:))
        var bound: HistoryToken?
        var holders: [String] = []
        for consumer in waited {
            guard let token = consumer.acknowledged, token.epoch == mark.epoch, consumer.state == .active else {
                obstacles.append(
                    consumer.state == .resyncing || consumer.epoch != mark.epoch
                        ? .resyncing(consumer.name) : .neverAcknowledged(consumer.name))
                continue
            }
            if token.sequence < bound?.sequence ?? .max { (bound, holders) = (token, []) }
            if token.sequence == bound?.sequence { holders.append(consumer.name) }
        }
        if waited.isEmpty, obstacles.isEmpty { obstacles = [.nobody] }
        guard obstacles.isEmpty, let bound else { return PurgeDecision(bound: nil, holders: [], obstacles: obstacles) }
        if let firstMirror, firstMirror.sequence < bound.sequence {
            return PurgeDecision(bound: firstMirror, holders: [], isHeldByMirror: true, obstacles: [])
        }
        return PurgeDecision(bound: bound, holders: holders, obstacles: [])
    }
}

/// Up to where to purge, or why not at all.
public struct PurgeDecision: Sendable, Hashable {
    /// The first transaction that stays, or the purge mark; nil where nothing may be purged.
    public let bound: HistoryToken?
    /// The consumers that hold the history from there on.
    public let holders: [String]
    /// True where a mirror author's transaction holds it.
    public let isHeldByMirror: Bool
    /// Why nothing may be purged.
    public let obstacles: [PurgeObstacle]

    init(bound: HistoryToken?, holders: [String], isHeldByMirror: Bool = false, obstacles: [PurgeObstacle]) {
        self.bound = bound
        self.holders = holders
        self.isHeldByMirror = isHeldByMirror
        self.obstacles = obstacles
    }
}

/// Why nothing may be purged: what, and the remedy.
public struct PurgeObstacle: Sendable, Hashable, CustomStringConvertible {
    /// The kind of obstacle. Open: later versions may add kinds.
    public struct Kind: Sendable, Hashable, CustomStringConvertible {
        /// The name, as it appears in replies and logs.
        public let description: String
        private init(_ name: String) { description = name }
        /// No consumer is registered that would have to be waited for.
        public static let nobody = Kind("nobody")
        /// A required author has no registered consumer.
        public static let noConsumer = Kind("noConsumer")
        /// A required consumer has never acknowledged.
        public static let neverAcknowledged = Kind("neverAcknowledged")
        /// A required consumer has not acknowledged since the lineage was lost.
        public static let resyncing = Kind("resyncing")
    }

    /// The kind of obstacle.
    public let kind: Kind
    /// The author or consumer; empty for nobody.
    public let name: String

    private init(_ kind: Kind, _ name: String = "") {
        self.kind = kind
        self.name = name
    }

    static let nobody = PurgeObstacle(.nobody)
    static func noConsumer(of author: String) -> PurgeObstacle { PurgeObstacle(.noConsumer, author) }
    static func neverAcknowledged(_ consumer: String) -> PurgeObstacle { PurgeObstacle(.neverAcknowledged, consumer) }
    static func resyncing(_ consumer: String) -> PurgeObstacle { PurgeObstacle(.resyncing, consumer) }

    /// What, and the remedy.
    public var description: String {
        switch kind {
        case .nobody:
            "no consumer is registered that history has to be kept for: start one, or purge by hand"
        case .noConsumer:
            "the required author \(name) has no registered consumer: start one, or name it a batch author"
        case .resyncing:
            "the consumer \(name) has not acknowledged since the history's lineage was lost: start it, or evict it"
        default:
            "the consumer \(name) has never acknowledged: start it, or evict it"
        }
    }
}
