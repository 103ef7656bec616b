public import PersistentHistory

extension HistoryCleaner {
    /// What to keep, when to clean, and whom to listen to.
    public struct Options: Sendable {
        /// Authors that each have to have a registered consumer; what they have not merged stays.
        public var requiredAuthors: Set<String> = []
        /// Authors whose consumers nobody waits for.
        public var batchAuthors: Set<String> = []
        /// Authors whose transactions stay, and all behind the first of them, unless ``cleansMirrors``.
        public var mirrorAuthors: Set<String> = []
        /// Whether mirror authors' transactions go as all others do.
        public var cleansMirrors = false
        /// When to clean without being told to.
        public var strategy = CleaningStrategy.none
        /// Whether to clean when it starts, whatever the strategy.
        public var cleanOnStart = false
        /// What the strategy's interval is measured by.
        public var clock: any HistoryClock = SystemHistoryClock()
        /// The broker's users by the consumers whose acknowledgements they may send. A consumer that is not named has the
        /// user who registered it.
        public var users: [String: String] = [:]
        /// The broker's users who may give a command, by its name. For one that is not named every user may, but for
        /// `clean`: that nobody may.
        public var commandUsers: [String: Set<String>] = [:]
        /// How long ``HistoryCleaner/stop()`` waits for the broker to take what is left.
        public var drainTimeout: Duration = .seconds(5)
        /// Where it writes what happens.
        public var logger: any HistoryLogger = SilentLogger()
        /// How often it looks whether a cleaning is due, and whether the store still has the history it had.
        package var tick: Duration = .seconds(1)
        /// The most rows that one write transaction purges.
        package var chunk = 1000
        package var onStep: StepObserver?

        /// The defaults.
        public init() {}

        var rules: PurgeRules {
            PurgeRules(
                requiredAuthors: requiredAuthors, batchAuthors: batchAuthors, mirrorAuthors: mirrorAuthors,
                cleansMirrors: cleansMirrors)
        }

        /// The shortest interval that leaves a mirror time to copy, in days, as Core Data's documentation has it.
        private static let mirrorInterval = Duration.seconds(7 * 24 * 3600)

        /// True where a mirror may not have copied yet what is cleaned.
        var isHastyWithMirrors: Bool {
            guard case .byDuration(let interval) = strategy else { return false }
            return !mirrorAuthors.isEmpty && interval < Self.mirrorInterval
        }

        /// Throws `invalid` for a strategy that means nothing.
        func validate() throws(MessagingError) {
            switch strategy {
            case .none: break
            case .byDuration(let interval):
                guard interval > .zero else {
                    throw MessagingError(.invalid, "a cleaning interval of \(interval): give one longer than zero")
                }
            case .byAcknowledgements(let count):
                guard count > 0 else {
                    throw MessagingError(.invalid, "cleaning every \(count) acknowledgements: give a number from 1")
                }
            }
        }
    }
}
