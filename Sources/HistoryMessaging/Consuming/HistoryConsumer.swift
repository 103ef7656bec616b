public import PersistentHistory
internal import TidingsAMQP

/// Brings local contexts up to date with a store: observes, fetches, merges and acknowledges, exactly once in effect to
/// contexts and at least once to hooks, through crashes, broker outages and restarts.
///
/// ```swift
/// let consumer = HistoryConsumer(store, name: "orders-1", contexts: [view], broker: broker)
/// await consumer.observe("article", .insert) { print("new:", $0.count) }
/// try await consumer.run()
/// ```
///
/// Messages are hints: what is merged is read from the store, after a token that is kept in a file of the consumer's own.
public actor HistoryConsumer: HistoryService {
    /// The name, by which its queue, its token and its acknowledgements go. One process at a time runs a consumer of a name.
    public nonisolated let name: String
    private let store: HistoryStore
    private let contexts: [any MergeContext]
    private let broker: Broker
    private let options: Options
    let hooks = Locked(HookRegistry())
    private let board = ConsumerBoard()
    private var agents: [WeakAgent] = []

    /// Makes a consumer; nothing happens before ``run()``.
    ///
    /// - Parameters:
    ///   - store: what it reads. Its registration and, without a broker, its acknowledgements are written there; a store that
    ///     is open for reading only serves too.
    ///   - name: unlike any other consumer's of the store.
    ///   - contexts: what it merges into, in this order; their names must differ.
    ///   - broker: what brings news; without one it polls.
    public init(
        _ store: HistoryStore, name: String, contexts: [any MergeContext] = [], broker: Broker = .none,
        options: Options = Options()
    ) {
        self.store = store
        self.name = name
        self.contexts = contexts
        self.broker = broker
        self.options = options
    }

    /// `consumer` and the name.
    public nonisolated var serviceName: String { "consumer \(name)" }

    /// Merges what is missing, then what comes, until ``stop()`` or a cancellation.
    ///
    /// Throws ``MessagingError``: `alreadyRunning`; `inUse` where another process runs a consumer of this name;
    /// `damagedToken`, `tokenFile`, `invalid`. ``HistoryError`` where the store is closed or unusable. What passes by itself
    /// is waited for, and what fails in contexts and hooks is tried again: see ``ConsumerStatus/State``.
    public func run() async throws {
        guard board.begin() else {
            throw MessagingError(.alreadyRunning, "the consumer \(name) runs already")
        }
        do {
            try await runOnce()
            board.end(nil)
        } catch {
            board.end(error)
            throw error
        }
    }

    /// Finishes the batch under way, ends ``run()`` and returns when that has returned.
    public nonisolated func stop() async { await board.stop() }

    /// What it is doing, and what it has done.
    public nonisolated func status() -> ConsumerStatus { board.status }

    /// Waits until everything up to a token is merged, and the consumer's token is durable. Where the token's epoch has
    /// ended, its history may have been lost: then until everything is merged that there is.
    ///
    /// Throws what ends the run meanwhile, ``MessagingError`` `stopped` where it is stopped, and `CancellationError`.
    /// Where nothing runs it waits for the run.
    public nonisolated func waitUntilCaughtUp(to token: HistoryToken) async throws {
        guard token.storeID == store.storeID else {
            throw MessagingError(.invalid, "the token is of store \(token.storeID), \(store.path) is \(store.storeID)")
        }
        try await board.wait(for: token)
    }

    // MARK: What ops tell it

    /// Tries at once what failed, and counts its attempts anew.
    public nonisolated func retry() { board.retry() }

    /// Skips what cannot be merged: one transaction, which is passed to no hook and no context.
    ///
    /// The skip is recorded in the store's `history_audit` first, or, where the store is read-only, in the log.
    /// Returns when it is done. Throws ``MessagingError`` `invalid` where nothing waits to be skipped, or does no more once
    /// that is recorded; and what recording it, or telling durable contexts, throws: the consumer waits on then.
    public func skip(reason: String) async throws {
        guard let sequence = board.skippable else {
            throw MessagingError(
                .invalid, "the consumer \(name) has nothing to skip: it is not held up by a transaction")
        }
        try await record("skip", "consumer \(name) after sequence \(sequence): \(reason)")
        try await board.skip(after: sequence)
    }

    /// Moves the consumer: hooks, and contexts that have no token of their own, get everything from there on. To a
    /// snapshot: contexts that can be loaded are loaded anew.
    ///
    /// Durable contexts stay where they are, since they know what they have merged. Returns when it is done; where nothing
    /// runs, the next ``run()`` of this object that comes so far does it first. Recorded like a skip. Throws what the store
    /// throws, such as `tokenExpired`.
    public func rewind(to start: Start) async throws {
        try await record("rewind", "consumer \(name) to \(start)")
        try await board.rewind(to: start)
    }

    private func record(_ kind: String, _ detail: String) async throws {
        options.log(.warning, "\(kind): \(detail)")
        guard store.isWritable else { return }
        try await store.audit(kind, actor: author, detail: detail)
    }

    // MARK: The run

    private var author: String { options.author ?? (store.author.isEmpty ? name : store.author) }

    private func runOnce() async throws {
        try validate()
        let directory = options.tokenDirectory ?? "\(store.path)-tokens"
        let (file, found) = try await TokenFile.open(directory: directory, consumer: name)
        let parts = ConsumerPipeline.Parts(
            store: store, name: name, author: author, contexts: contexts, broker: broker, options: options,
            hooks: hooks, board: board)
        let pipeline = try ConsumerPipeline(parts, file: file, found: found)
        agents = pipeline.agents.map { WeakAgent(agent: $0) }
        do {
            try await pipeline.run()
            await file.close()
        } catch {
            await file.close()
            throw error
        }
    }

    private func validate() throws(MessagingError) {
        guard name.contains(where: { !$0.isWhitespace }) else {
            throw MessagingError(.invalid, "the consumer's name is empty: name it, unlike any other of the store")
        }
        let names = contexts.map(\.name)
        guard Set(names).count == names.count else {
            throw MessagingError(.invalid, "two contexts of the consumer \(name) have the same name: give each its own")
        }
    }

    /// True once the run has been told to stop, until the next one begins.
    package nonisolated var isStopping: Bool { board.isStopping }

    /// True while something is wanted of it that it has not begun: a stop, a retry, a skip or a rewind.
    package nonisolated var isInterrupted: Bool { board.isInterrupted }

    /// How many agents of runs are still there; none after a run has ended.
    package var livingAgents: Int { agents.count { $0.agent != nil } }
}

/// An agent, as long as somebody else holds it.
private struct WeakAgent {
    weak var agent: AnyObject?
}
