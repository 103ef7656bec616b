internal import PersistentHistory
internal import TidingsAMQP

/// Gives every page to merge hooks, contexts and observer hooks, in this order, and knows how far each has come.
actor HistoryMerger {
    /// A context and its position.
    struct Member: Sendable {
        let context: any MergeContext
        /// Up to where it has merged; nil before it has found its place.
        var position: HistoryToken?
        /// What a reload has brought already.
        var exclusion = HistoryExclusion()
    }

    let store: HistoryStore
    let options: HistoryConsumer.Options
    let board: ConsumerBoard
    let hooks: Locked<HookRegistry>
    /// Makes what the token's file is to remember durable.
    let remember: @Sendable (StoredToken) async throws -> Void
    /// Tells of a token that the history does not hold any more.
    let prove: @Sendable (HistoryToken) async throws -> Void
    var members: [Member]
    /// Up to where hooks have been called: the consumer's own token.
    var shared: HistoryToken?
    /// See ``StoredToken/reloadedThrough``.
    var reloadedThrough: Int64 = 0
    private var matcher = HistoryEntityMatcher([])
    private var matcherVersion = -1

    init(
        _ store: HistoryStore, _ contexts: [any MergeContext], _ options: HistoryConsumer.Options,
        hooks: Locked<HookRegistry>, board: ConsumerBoard,
        remember: @escaping @Sendable (StoredToken) async throws -> Void,
        prove: @escaping @Sendable (HistoryToken) async throws -> Void
    ) {
        self.store = store
        self.options = options
        self.hooks = hooks
        self.board = board
        self.remember = remember
        self.prove = prove
        members = contexts.map { Member(context: $0, position: nil) }
    }

    /// Up to where everybody has merged: where fetching goes on.
    var position: HistoryToken? {
        guard let shared else { return nil }
        return members.compactMap(\.position).reduce(shared) { $0.sequence <= $1.sequence ? $0 : $1 }
    }

    /// Merges a page. What it throws leaves the consumer's token; contexts that have merged keep their positions, and
    /// are not given the same again.
    func merge(_ page: FetchedPage) async throws {
        let news = page.batch.transactions.slice(after: shared?.sequence ?? 0)
        var isFinished = false
        if !news.isEmpty { isFinished = try await callMergeHooks(HistoryBatch(news, through: page.batch.token)) }
        for index in members.indices { try await merge(page, into: index, isFinished: isFinished) }
        if !news.isEmpty { try await callObservers(news) }
        advance(to: page.batch.token)
    }

    /// Passes a page without merging it.
    func pass(_ page: FetchedPage) async throws {
        for index in members.indices { try await merge(page, into: index, isFinished: true) }
        advance(to: page.batch.token)
    }

    private func advance(to token: HistoryToken) {
        if shared.map({ $0.sequence < token.sequence }) ?? true { shared = token }
    }

    // MARK: Contexts

    private func merge(_ page: FetchedPage, into index: Int, isFinished: Bool) async throws {
        let batch = page.batch
        guard !isFinished else { return try await give([], through: batch.token, to: index) }
        let context = members[index].context
        for broken in page.breaks where context.canLoad && broken.sequence > sequence(of: index) {
            let exclusion = members[index].exclusion
            let entities = broken.entities.filter { (exclusion.through[$0] ?? 0) < broken.sequence }
            guard !entities.isEmpty else { continue }
            let before = batch.transactions.slice(after: sequence(of: index), before: broken.sequence)
            if let last = before.last { try await give(before, through: last.token, to: index) }
            try await reload(Set(entities), in: index)
        }
        let rest = batch.transactions.slice(after: sequence(of: index))
        try await give(rest, through: batch.token, to: index)
    }

    private func sequence(of index: Int) -> Int64 { members[index].position?.sequence ?? .max }

    /// Merges transactions into a context, but for its own and for what a reload has brought; durable ones are told also
    /// how far nothing reaches.
    private func give(_ transactions: [HistoryTransaction], through token: HistoryToken, to index: Int) async throws {
        guard sequence(of: index) < token.sequence else { return }
        let member = members[index]
        var transactions = transactions
        if let origin = member.context.origin { transactions.removeAll { $0.origin == origin } }
        if !member.exclusion.through.isEmpty { transactions = member.exclusion.apply(to: transactions) }
        if !transactions.isEmpty || member.context.isDurable {
            try await member.context.merge(HistoryBatch(transactions, through: token))
        }
        members[index].position = token
        members[index].exclusion.through = member.exclusion.through.filter { $0.value > token.sequence }
    }

    // MARK: Hooks

    /// True where a hook has finished the batch.
    private func callMergeHooks(_ batch: HistoryBatch) async throws -> Bool {
        let calls = hooks.withLock { $0.merging }
        guard !calls.isEmpty else { return false }
        let input = MergeHookInput(batch: batch, contexts: members.map(\.context))
        for (id, call) in calls {
            // Removed meanwhile, by the hook before or by anybody.
            guard hooks.withLock({ hooks in hooks.merging.contains { $0.id == id } }) else { continue }
            if try await call(input) == .finish { return true }
        }
        return false
    }

    private func callObservers(_ transactions: [HistoryTransaction]) async throws {
        for transaction in transactions {
            refreshMatcher()
            guard matcher.mayMatch(transaction) else { continue }
            for group in try await ChangeGrouping.groups(of: transaction) { try await callObservers(of: group) }
        }
    }

    private func callObservers(of group: HistoryChangeGroup) async throws {
        let called = hooks.withLock { hooks in
            hooks.observers.filter { $0.operation == group.operation && $0.entity == group.entity }
        }
        for observer in called {
            guard hooks.withLock({ hooks in hooks.observers.contains { $0.id == observer.id } }) else { continue }
            try await observer.call(group)
        }
    }

    private func refreshMatcher() {
        let known = matcherVersion
        let renewed = hooks.withLock { hooks -> (Int, [(entity: String, operation: HistoryChange.Operation)])? in
            hooks.version == known ? nil : (hooks.version, hooks.observers.map { ($0.entity, $0.operation) })
        }
        guard let (version, wanted) = renewed else { return }
        matcherVersion = version
        matcher = HistoryEntityMatcher(wanted)
    }
}

extension [HistoryTransaction] {
    /// The transactions, which ascend, between two sequences.
    func slice(after start: Int64, before end: Int64 = .max) -> [HistoryTransaction] {
        guard let first, let last else { return [] }
        if first.token.sequence > start, last.token.sequence < end { return self }
        return filter { $0.token.sequence > start && $0.token.sequence < end }
    }
}
