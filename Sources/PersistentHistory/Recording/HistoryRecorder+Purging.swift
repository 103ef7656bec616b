internal import TidingsSQLite

/// Up to where to purge, exclusively.
struct PurgeBound: Sendable {
    /// The first sequence that stays.
    let sequence: Int64
    /// Proof, to be checked before each chunk, that the bound was computed from the history that is there.
    let proof: HistoryToken?
}

/// What to purge, and how.
struct PurgeOrder: Sendable {
    /// Up to where at most.
    let bound: PurgeBound
    /// Rules that each chunk asks anew, in its own transaction.
    var rules: PurgeRules?
    /// The most rows of a chunk.
    var chunk: Int64 = 1000
    /// Called before the mark is written.
    var beforeMark: (@Sendable () -> Void)?
}

/// What one chunk of a purge has done.
struct PurgedChunk: Sendable {
    let removed: Int
    let audit: PurgeAudit
    /// What the rules said, where there are any.
    var decision: PurgeDecision?
}

/// The audit entry of a purge that runs in several chunks.
struct PurgeAudit: Sendable {
    let actor: String
    let detail: String
    /// The entry's row, once the first chunk has written it.
    var row: Int64?
    var count: Int64 = 0
}

extension HistoryRecorder {
    /// Purges the oldest transactions, their mark and their audit entry in one transaction of its own.
    func purge(_ order: PurgeOrder, _ audit: PurgeAudit, _ database: Database) throws -> PurgedChunk {
        try begin()
        do {
            let result = try database.internally {
                try database.hidingChanges { try purgeChunk(order, audit, database) }
            }
            // Before the commit: what was found at the beginning is recorded behind the new mark.
            try refreshState()
            // A purge is no transaction of the history; only what others did to the schema is recorded, if anything.
            _ = try commit(Writer(author: audit.actor, contextName: nil, origin: HistoryOrigin()))
            return result
        } catch {
            rollBack()
            forgetSchema()
            throw error
        }
    }

    private func purgeChunk(_ order: PurgeOrder, _ audit: PurgeAudit, _ database: Database) throws -> PurgedChunk {
        let state = try StoreState.read(database)
        let head = try state.head(database)
        var end = min(order.bound.sequence - 1, head.sequence, state.purgedSequence + order.chunk)
        let decision = try order.rules?.decide(database, state, upTo: end)
        if let decision { end = min(end, (decision.bound?.sequence ?? 0) - 1) }
        guard end > state.purgedSequence else { return PurgedChunk(removed: 0, audit: audit, decision: decision) }
        for proof in [order.bound.proof, decision?.bound].compactMap(\.self)
        where proof.sequence > state.purgedSequence {
            try state.check(proof, database)
        }
        let last = try Self.last(after: state.purgedSequence, upTo: end, rows: order.chunk, database)
        let sql = "SELECT nonce FROM history_transaction WHERE sequence = ?"
        guard let nonce = try database.first(sql, last, as: Int64.self) else {
            throw HistoryError(
                .damagedHistory, "\(database.path): transaction \(last) is missing between others: restore a backup")
        }
        try database.withoutPreupdateHook {
            try database.execute("DELETE FROM history_transaction WHERE sequence <= ?", last)
        }
        let removed = database.latestChanges
        let firstChunk = RecordFormat.chunkKey(sequence: last + 1, chunk: 0)
        try database.execute("DELETE FROM history_chunk WHERE chunk < ?", firstChunk)
        order.beforeMark?()
        try database.execute(
            "UPDATE history_store SET purged_sequence = ?, purged_nonce = ? WHERE id = 1", last, nonce)
        return PurgedChunk(removed: removed, audit: try writeAudit(audit, removed, database), decision: decision)
    }

    /// The last transaction of a chunk of at most `rows` rows, those of `history_chunk` included; one at least.
    private static func last(
        after start: Int64, upTo end: Int64, rows: Int64, _ database: Database
    ) throws -> Int64 {
        let sql = """
            SELECT sequence FROM (
                SELECT sequence, sum(1 + chunk_count) OVER (ORDER BY sequence) AS total
                FROM history_transaction WHERE sequence BETWEEN ? AND ?)
            WHERE total > ? LIMIT 1
            """
        guard let first = try database.first(sql, start + 1, end, rows, as: Int64.self) else { return end }
        return max(first - 1, start + 1)
    }

    private func writeAudit(_ audit: PurgeAudit, _ removed: Int, _ database: Database) throws -> PurgeAudit {
        var audit = audit
        audit.count += Int64(removed)
        if let row = audit.row {
            try database.execute("UPDATE history_audit SET count = ? WHERE id = ?", audit.count, row)
        } else {
            try database.execute(
                "INSERT INTO history_audit(time, kind, actor, count, detail) VALUES (?, 'purge', ?, ?, ?)",
                clock.microseconds, audit.actor, audit.count, audit.detail)
            audit.row = database.lastInsertedRowID
        }
        return audit
    }
}
