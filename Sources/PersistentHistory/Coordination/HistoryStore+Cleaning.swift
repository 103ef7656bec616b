internal import TidingsSQLite

/// What a cleaning removes, or has removed.
package struct CleaningOutcome: Sendable, Hashable {
    /// The number of transactions.
    package let count: Int
    /// Up to where, or why not.
    package let decision: PurgeDecision
}

/// Places within a cleaning, for tests that end the process there.
package enum CleaningStep: Sendable {
    case beforeChunk, betweenChunks
    /// Within the write transaction, before the mark is written.
    case beforeMark
    /// After the mark is committed.
    case afterMark
}

extension HistoryStore {
    /// What ``clean(_:chunk:onStep:)`` would remove now, and nothing is removed.
    package func planCleaning(_ rules: PurgeRules) async throws -> CleaningOutcome {
        try await reader.read { database, state in
            let decision = try rules.decide(database, state)
            return CleaningOutcome(count: decision.count(above: state.purgedSequence), decision: decision)
        }
    }

    /// Purges what the rules allow, in chunks of short write transactions, each of which asks them anew: whoever registers
    /// meanwhile holds what is not purged yet. What is acknowledged meanwhile is left to the next cleaning.
    ///
    /// - Parameters:
    ///   - chunk: the most rows of a chunk.
    ///   - isEnding: asked after each chunk; true ends the cleaning there.
    /// - Returns: what was removed; the decision is the last one, so that it says what has ended the cleaning early.
    /// - Throws: as ``deleteHistory(before:)``.
    package func clean(
        _ rules: PurgeRules, chunk size: Int = 1000, isEnding: (@Sendable () -> Bool)? = nil,
        onStep: (@Sendable (CleaningStep) -> Void)? = nil
    ) async throws -> CleaningOutcome {
        let writer = try writable()
        let plan = try await planCleaning(rules)
        guard let bound = plan.decision.bound, plan.count > 0 else { return plan }
        let beforeMark: @Sendable () -> Void = { onStep?(.beforeMark) }
        let order = PurgeOrder(
            bound: PurgeBound(sequence: bound.sequence, proof: nil), rules: rules, chunk: Int64(max(1, size)),
            beforeMark: beforeMark)
        var audit = PurgeAudit(actor: author, detail: plan.decision.detail)
        var total = 0
        while true {
            onStep?(.beforeChunk)
            let chunk = try await writer.purge(order, audit)
            audit = chunk.audit
            total += chunk.removed
            if chunk.removed > 0 { onStep?(.afterMark) }
            guard total < plan.count, isEnding?() != true else {
                return CleaningOutcome(count: total, decision: plan.decision)
            }
            guard chunk.removed > 0 else {
                return CleaningOutcome(count: total, decision: chunk.decision ?? plan.decision)
            }
            // A pause longer than a waiting writer's sleep: it gets its turn.
            try await Task.sleep(for: .milliseconds(1))
            onStep?(.betweenChunks)
        }
    }
}

extension PurgeRules {
    /// Decides by what the store says now. Must run inside the transaction that relies on it.
    ///
    /// - Parameter end: the last sequence that could be purged: mirror authors are looked for up to there only.
    func decide(_ database: Database, _ state: StoreState, upTo end: Int64 = .max) throws -> PurgeDecision {
        let consumers = try ConsumerRecord.all(database, state)
        let decision = decide(consumers, mark: state.mark)
        guard let bound = decision.bound, !holdingAuthors.isEmpty else { return decision }
        let mirror = try firstMirror(after: state.purgedSequence, upTo: min(end, bound.sequence), database, state)
        return mirror.map { decide(consumers, mark: state.mark, firstMirror: $0) } ?? decision
    }

    private func firstMirror(
        after start: Int64, upTo end: Int64, _ database: Database, _ state: StoreState
    ) throws -> HistoryToken? {
        let sql = """
            SELECT sequence, nonce FROM history_transaction WHERE sequence > ?1 AND sequence <= ?2 AND author = ?3
            ORDER BY sequence LIMIT 1
            """
        // Few authors: each is one pass at most, up to the first one found.
        var end = end
        var first: HistoryToken?
        for author in holdingAuthors {
            let found = try database.query(sql, start, end, author) { row -> HistoryToken in
                state.token(try row.get(0), UInt64(bitPattern: try row.get(1)))
            }
            guard let token = found.first else { continue }
            (first, end) = (token, token.sequence - 1)
        }
        return first
    }
}

extension PurgeDecision {
    /// The number of transactions between a purge mark and the bound.
    func count(above mark: Int64) -> Int { bound.map { Int(max(0, $0.sequence - 1 - mark)) } ?? 0 }

    /// For the audit.
    fileprivate var detail: String {
        guard let bound else { return "nothing" }
        if isHeldByMirror { return "cleaning before sequence \(bound.sequence), held by a mirror author" }
        let names = holders.prefix(3).joined(separator: ", ") + (holders.count > 3 ? ", …" : "")
        return "cleaning before sequence \(bound.sequence), held by \(names)"
    }
}
