public import PersistentHistory
public import TidingsAMQP

/// Publishes what nobody else does: what dead processes left, untracked writers and single commands wrote.
///
/// One relay a store is active, whichever process it is in: the others wait, and the first of them takes over at once
/// when it dies. It also records how far everything in the store is published.
public actor HistoryRelay: HistoryService {
    /// How to relay.
    public struct Options: Sendable {
        /// How long a publisher that has something to publish may be silent before the relay publishes it.
        ///
        /// Measured by the relay's own clock: no clocks of two processes are compared.
        public var grace: Duration = .seconds(5)
        /// How often to look whether somebody else has committed.
        public var pollInterval: Duration = .milliseconds(200)
        /// After how long a publisher that has nothing left is forgotten.
        public var forgetAfter: Duration = .seconds(600)
        /// How much may wait for the broker's answer.
        public var window = AMQPPublisher.Window()
        /// The largest body of a message, in bytes: a transaction that would take more is announced without its changes.
        public var messageLimit = 256 << 10
        /// The delays before what the broker did not take is sent again.
        public var retry = Backoff(first: .milliseconds(100), longest: .seconds(10))
        /// How long ``HistoryRelay/stop()`` waits for the broker to confirm what is on its way.
        public var drainTimeout: Duration = .seconds(5)
        /// Where it writes what happens.
        public var logger: any HistoryLogger = SilentLogger()
        package var onStep: StepObserver?
        package var onSend: SendObserver?

        /// The defaults.
        public init() {}
    }

    let store: HistoryStore
    let broker: Broker
    let options: Options
    let log: ServiceLog
    let life = ServiceLife("relay")
    let retry: StoreRetry
    var connection: AMQPConnection?
    private var sender: MessageSender?
    private var role = RelayStatus.Role.idle
    /// What runs that have ended have done.
    private var past = RelayStatus()

    // MARK: The work under way

    var ledger: RelayLedger
    /// Counts lineages: answers to messages of an earlier one mean nothing.
    var lineage = 0
    var batchesOnTheWay = 0
    /// Closed while there is no room for another batch: commits then wake nobody, and cost what they cost without it.
    let commitGate = Gate(isOpen: true)
    var thin = 0
    var purged = 0
    /// What was seen last: another version means that somebody has committed.
    var version: Int64?
    var records: [PublisherRecord] = []
    /// True where there was more than the ledger had room for, or than was read at a time.
    var hasMore = true
    var recordedThrough: Int64 = 0
    var recordDue: ContinuousClock.Instant?
    var drain = Drain()

    /// Prepares a relay; nothing starts before ``run()``.
    ///
    /// - Parameter broker: where to publish; with ``Broker/none`` it waits to be stopped, and does nothing.
    public init(_ store: HistoryStore, broker: Broker, options: Options = Options()) {
        self.store = store
        self.broker = broker
        self.options = options
        ledger = RelayLedger(after: store.openedAt, grace: options.grace)
        log = ServiceLog(service: "relay", logger: options.logger)
        retry = StoreRetry(life: life, log: log)
    }

    /// `relay <file>`.
    public nonisolated var serviceName: String { "relay \(store.path)" }

    /// Waits for its turn, and relays until it is stopped.
    ///
    /// Switches publishing on for the store where it was off. Throws ``MessagingError`` `alreadyRunning`, or `invalid` where
    /// the lock's file cannot be used; ``HistoryError`` where the store cannot be used any more; ``AMQPError`` where the
    /// connection may not recover.
    public func run() async throws {
        try life.begin()
        defer {
            settleStatus()
            life.end()
        }
        guard broker.configuration != nil else { return try await life.waitForStop() }
        let lock = try ServiceLock(store, for: "relay")
        guard try await waitForTurn(lock) else { return }
        defer { lock.release() }
        role = .active
        log.write(.info, "active")
        try await relay()
    }

    /// Ends ``run()`` once what is on its way is confirmed, or the drain timeout has passed. Another relay goes on.
    public nonisolated func stop() async { await life.stop() }

    /// What it is doing, and has done.
    public func status() -> RelayStatus {
        var status = past
        status.role = role
        status.broker = connection?.state
        status.publishedThrough = ledger.publishedThrough.sequence
        add(&status)
        return status
    }

    /// False where it is stopped before.
    private func waitForTurn(_ lock: ServiceLock) async throws -> Bool {
        while try !lock.take() {
            // Nobody yet where the holder has only just taken it: the next look tells.
            if let holder = lock.holder, role != .waiting(holder: holder) {
                log.write(.info, "waiting", nil, [("holder", holder)])
                role = .waiting(holder: holder)
            }
            await life.wakeup.wait(until: .now + options.pollInterval)
            try Task.checkCancellation()
            if life.isStopping { return false }
        }
        return true
    }

    private func relay() async throws {
        guard let connection = try broker.connection("relay") else { return }
        self.connection = connection
        let sender = await MessageSender(
            connection, window: options.window, names: broker.names(for: store), retry: options.retry, log: log)
        self.sender = sender
        let log = log
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await connection.serve() }
            group.addTask { await log.follow(connection) }
            group.addTask {
                try await self.work(sender)
                await connection.close(within: .seconds(1))
            }
            // The first error ends the others; waiting for all would wait for what nobody ends.
            try await group.finishOrFail()
        }
    }

    // MARK: Status

    private func add(_ status: inout RelayStatus) {
        status.thin += thin
        status.purged += purged
        guard let counts = sender?.counts else { return }
        status.thin += counts.thin
        status.confirmed += counts.confirmed
        status.unrouted += counts.unrouted
        status.nacked += counts.nacked
        status.unknown += counts.unknown
    }

    private func settleStatus() {
        add(&past)
        (thin, purged, role) = (0, 0, .idle)
        sender = nil
        connection = nil
    }
}
