public import FoundationEssentials
internal import TidingsSQLite

extension HistoryStore {
    /// Which part of the history to delete.
    public enum PurgeLimit: Sendable, Hashable {
        /// Everything before the transaction that the token names; that one stays.
        case token(HistoryToken)
        /// Everything before the sequence; that one stays.
        case sequence(Int64)
        /// The longest prefix of transactions that are older than the date, by their writers' clocks.
        case date(Date)
    }

    /// Deletes the oldest part of the history, up to a limit that stays. Data tables are never touched.
    ///
    /// Runs in short transactions of about a thousand rows with a pause between them, so that writers go on. If it
    /// is interrupted, what it has deleted until then is a prefix of the history, and marked as such.
    ///
    /// - Returns: the number of transactions deleted.
    /// - Throws: ``HistoryError``: `tokenInvalid` for a token of another lineage; `busy`, `closed`, `readOnly`; and
    ///   `CancellationError` between two chunks.
    @discardableResult
    public func deleteHistory(before limit: PurgeLimit) async throws -> Int {
        let writer = try writable()
        let bound = try await purgeBound(limit)
        var audit = PurgeAudit(actor: author, detail: "before sequence \(bound.sequence)")
        var total = 0
        while true {
            let chunk = try await writer.purge(PurgeOrder(bound: bound), audit)
            audit = chunk.audit
            total += chunk.removed
            guard chunk.removed > 0 else { return total }
            // A pause longer than a waiting writer's sleep: it gets its turn.
            try await Task.sleep(for: .milliseconds(1))
        }
    }

    /// Deletes everything before a transaction.
    @discardableResult
    public func deleteHistory(before transaction: HistoryTransaction) async throws -> Int {
        try await deleteHistory(before: .token(transaction.token))
    }

    /// The number of transactions that ``deleteHistory(before:)`` would delete now.
    public func countHistory(before limit: PurgeLimit) async throws -> Int {
        let bound = try await purgeBound(limit)
        return try await reader.read { database, state in
            let last = min(bound.sequence - 1, try state.head(database).sequence)
            return Int(max(0, last - state.purgedSequence))
        }
    }

    private func purgeBound(_ limit: PurgeLimit) async throws -> PurgeBound {
        try await reader.read { database, state in
            switch limit {
            case .token(let token):
                // Behind the mark everything is gone already: that is no error here.
                if token.storeID != state.storeID || token.epoch != state.epoch
                    || token.sequence >= state.purgedSequence
                {
                    try state.check(token, database)
                }
                return PurgeBound(sequence: token.sequence, proof: token)
            case .sequence(let sequence):
                // What is committed while the purge runs stays.
                let end = try state.head(database).sequence + 1
                return PurgeBound(sequence: min(max(sequence, 1), end), proof: nil)
            case .date(let date):
                let sql = "SELECT sequence FROM history_transaction WHERE time >= ? ORDER BY sequence LIMIT 1"
                let first = try database.first(sql, date.microsecondsSince1970, as: Int64.self)
                return PurgeBound(sequence: try first ?? state.head(database).sequence + 1, proof: nil)
            }
        }
    }
}
