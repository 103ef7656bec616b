public import PersistentHistory
public import TidingsAMQP

/// Publishes what is written through a store: durable, then published, then confirmed.
///
/// Commits never wait for it. However long the broker is away, it keeps no more than its place in the history and a
/// few batches; when the broker is back it catches up. What it leaves behind when it ends, a ``HistoryRelay`` publishes.
/// Messages may come twice, never not at all.
///
/// ```swift
/// try await withRunning(HistoryPublisher(store, broker: broker)) {
///     let token = try await store.write { db in try db.execute("INSERT INTO article(title) VALUES ('Hello')") }.token
///     try await publisher.waitUntilPublished(through: token)
/// }
/// ```
public actor HistoryPublisher: HistoryService {
    /// How to publish.
    public struct Options: Sendable {
        /// How much may wait for the broker's answer.
        public var window = AMQPPublisher.Window()
        /// The largest body of a message, in bytes: a transaction that would take more is announced without its changes.
        public var messageLimit = 256 << 10
        /// Whether a relay runs in the same process.
        public var relays = false
        /// The relay's options. Without a logger of its own it has the publisher's.
        public var relay = HistoryRelay.Options()
        /// The delays before what the broker did not take is sent again.
        public var retry = Backoff(first: .milliseconds(100), longest: .seconds(10))
        /// How long ``HistoryPublisher/stop()`` waits for the broker to confirm what is left.
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
    let life = ServiceLife("publisher")
    let retry: StoreRetry
    var connection: AMQPConnection?
    private var sender: MessageSender?
    private var relay: HistoryRelay?
    /// What runs that have ended have done.
    private var past = PublisherStatus()

    // MARK: The work under way

    var ledger = PublishLedger(after: 0)
    /// All of the own origins up to here has been handed on.
    var cursor: HistoryToken
    /// The last transaction that was handed on: the cursor lags behind it in the middle of a page. All that is confirmed
    /// is of the history that it stands in.
    var sent: HistoryToken
    /// Counts lineages: answers to messages of an earlier one mean nothing.
    var lineage = 0
    var known: Set<String> = []
    /// The own origins when they were asked for last.
    var origins: (all: [HistoryOrigin], generation: Int)?
    var batchesOnTheWay = 0
    /// Closed while there is no room for another batch: commits then wake nobody, and cost what they cost without it.
    let commitGate = Gate(isOpen: true)
    var thin = 0
    var purged = 0
    var rows = PublisherRows()
    var drain = Drain()
    private var waiters: [Int: (sequence: Int64, continuation: CheckedContinuation<Void, any Error>)] = [:]
    private var lastWaiter = 0

    /// Prepares a publisher; nothing starts before ``run()``.
    ///
    /// - Parameter broker: where to publish; with ``Broker/none`` it waits to be stopped, and does nothing.
    public init(_ store: HistoryStore, broker: Broker, options: Options = Options()) {
        self.store = store
        self.broker = broker
        self.options = options
        cursor = store.openedAt
        sent = store.openedAt
        log = ServiceLog(service: "publisher", logger: options.logger)
        retry = StoreRetry(life: life, log: log)
    }

    /// `publisher <author>`.
    public nonisolated var serviceName: String { "publisher \(store.author)" }

    /// Publishes until it is stopped: first what was written through the store before, then every commit.
    ///
    /// Switches publishing on for the store where it was off. Throws ``MessagingError`` `alreadyRunning`,
    /// ``HistoryError`` where the store cannot be used any more, and ``AMQPError`` where the connection may not recover.
    public func run() async throws {
        try life.begin()
        defer {
            settleStatus()
            failWaiters(MessagingError(.stopped, "the publisher was stopped before the transaction was published"))
            life.end()
        }
        guard let connection = try broker.connection("publisher") else { return try await life.waitForStop() }
        self.connection = connection
        var relayOptions = options.relay
        if relayOptions.logger is SilentLogger { relayOptions.logger = options.logger }
        let relay = options.relays ? HistoryRelay(store, broker: broker, options: relayOptions) : nil
        self.relay = relay
        let sender = await MessageSender(
            connection, window: options.window, names: broker.names(for: store), retry: options.retry, log: log)
        self.sender = sender
        let log = log
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await connection.serve() }
            group.addTask { await log.follow(connection) }
            if let relay { group.addTask { try await relay.run() } }
            group.addTask {
                try await self.work(sender)
                await relay?.stop()
                await connection.close(within: .seconds(1))
            }
            // The first error ends the others; waiting for all would wait for what nobody ends.
            try await group.finishOrFail()
        }
    }

    /// Publishes what is left, for at most the drain timeout, and ends ``run()``. What the broker has not confirmed then
    /// is left to the relay.
    public nonisolated func stop() async { await life.stop() }

    /// What it has done, and is doing.
    public func status() async -> PublisherStatus {
        var status = past
        status.isRunning = life.isRunning
        status.broker = connection?.state
        status.waiting = ledger.pending
        status.confirmedThrough = ledger.settledThrough
        add(&status)
        status.relay = await relay?.status()
        return status
    }

    /// Waits until every transaction of this store object up to a token is published: confirmed by the broker, or wanted
    /// by no queue.
    ///
    /// Throws ``MessagingError``: `invalid` without a broker, or for another store's token; `stopped` where the publisher
    /// ends before. A cancellation ends the wait.
    public func waitUntilPublished(through token: HistoryToken) async throws {
        guard broker.configuration != nil else {
            throw MessagingError(.invalid, "there is no broker, so that nothing is published: configure one")
        }
        guard token.storeID == store.storeID else {
            throw MessagingError(.invalid, "the token is of store \(token.storeID), this one is \(store.storeID)")
        }
        guard ledger.settledThrough < token.sequence else { return }
        lastWaiter += 1
        let id = lastWaiter
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                if Task.isCancelled { return continuation.resume(throwing: CancellationError()) }
                waiters[id] = (token.sequence, continuation)
                life.wakeup.signal()
            }
        } onCancel: {
            Task { await self.cancelWaiter(id) }
        }
    }

    // MARK: Waiting for it

    private func cancelWaiter(_ id: Int) {
        waiters.removeValue(forKey: id)?.continuation.resume(throwing: CancellationError())
    }

    private func failWaiters(_ error: MessagingError) {
        for waiter in waiters.values { waiter.continuation.resume(throwing: error) }
        waiters = [:]
    }

    /// Lets go whoever has waited for what is published now.
    func releaseWaiters() {
        guard !waiters.isEmpty else { return }
        let through = ledger.settledThrough
        for (id, waiter) in waiters where waiter.sequence <= through {
            waiters[id] = nil
            waiter.continuation.resume()
        }
    }

    // MARK: Status

    private func add(_ status: inout PublisherStatus) {
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
        (thin, purged) = (0, 0)
        sender = nil
        connection = nil
        relay = nil
    }
}
