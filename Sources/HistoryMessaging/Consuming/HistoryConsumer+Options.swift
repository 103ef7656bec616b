public import PersistentHistory
public import TidingsAMQP

extension HistoryConsumer {
    /// Where a consumer begins that has no token yet.
    public enum Start: Sendable, Hashable {
        /// Contexts are loaded from the rows as they are; what comes after is merged.
        case snapshot
        /// At the oldest transaction that is there.
        case beginning
        /// With what is committed from now on.
        case now
        /// After a token.
        case after(HistoryToken)
    }

    /// Where a consumer fetches the history from that it misses. There may be more of them in later versions.
    public struct Source: Sendable, Hashable, CustomStringConvertible {
        /// The name, as it appears in logs.
        public let description: String
        private init(_ name: String) { description = name }
        /// The store: what follows the consumer's token is read from there page by page, and proved to be of its lineage.
        /// Messages are hints that there is something to fetch; nothing of what they hold is merged.
        public static let store = Source("store")
    }

    /// What a consumer is to the cleaner.
    public enum Role: String, Sendable, Hashable {
        /// History is kept until it has acknowledged.
        case required
        /// History is not kept for it: it may find that it has to resync.
        case optional
    }

    /// How a consumer works.
    public struct Options: Sendable {
        /// On whose behalf it reads; nil is the store's author, or, where the store is read-only, the consumer's name.
        public var author: String?
        /// Where it begins the first time; nil is ``Start/snapshot`` where any context can be loaded, else
        /// ``Start/beginning``.
        public var start: Start?
        /// Where missing history is fetched from.
        public var source = Source.store
        /// Only these authors' transactions are merged; nil is everybody's, an empty set is nobody's.
        public var authors: Set<String>?
        /// These authors' transactions are not merged.
        public var excludingAuthors: Set<String> = []
        /// The authors that copy from elsewhere.
        public var mirrorAuthors: Set<String> = []
        /// True where their transactions are merged too.
        public var mergesMirrors = false
        /// Whether history is kept for it.
        public var role = Role.required
        /// Where its token is kept; nil is a directory beside the store, named like it with `-tokens` behind.
        public var tokenDirectory: String?
        /// How often it looks for commits while a broker brings deliveries.
        public var pollInterval: Duration = .seconds(10)
        /// How often it looks for commits without a broker, or while it is away.
        public var pollIntervalWithoutBroker: Duration = .seconds(1)
        /// The most transactions of a batch; it ends earlier at about a megabyte of changes.
        public var pageSize = 4000
        /// The delays between attempts to merge what failed.
        public var retry = Backoff(first: .milliseconds(200), longest: .seconds(30))
        /// How often it tries before it is stalled.
        public var attemptsBeforeStall = 10
        /// How long the first snapshot waits for the cleaner to know this consumer.
        public var registrationWait: Duration = .seconds(5)
        /// How often an idle consumer acknowledges again.
        public var acknowledgeInterval: Duration = .seconds(300)
        /// How many deliveries may wait unsettled.
        public var prefetch: UInt16 = 500
        /// Where it says what happens to it.
        public var logger: any HistoryLogger = SilentLogger()
        /// A larger delivery is rejected unread, in bytes: the largest that `publisher.messageLimit` may be set to.
        package var largestMessage = 64 << 20
        /// Called between the steps of its work.
        package var onStep: StepObserver?
        /// Called before the token's file is written; what it throws is as if the system had refused.
        package var onTokenWrite: (@Sendable () throws -> Void)?
        /// Called before a refused message is sent to the dead ones; what it throws is as if it could not be sent.
        package var onDeadLetter: (@Sendable () throws -> Void)?

        /// The defaults.
        public init() {}

        /// Transactions of no author but these pass.
        var excluded: Set<String> { mergesMirrors ? excludingAuthors : excludingAuthors.union(mirrorAuthors) }

        func step(_ step: AgentStep) { onStep?(step) }

        func log(_ level: HistoryLogLevel, _ message: String, _ fields: [(name: String, value: String)] = []) {
            logger.log(level) { HistoryLogEntry("consumer", message, fields) }
        }
    }
}
