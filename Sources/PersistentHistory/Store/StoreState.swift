package import FoundationEssentials
package import TidingsSQLite

/// The row of `history_store`, and what stands in the history by it. Valid inside the transaction that read it.
package struct StoreState: Sendable, Hashable {
    /// The store's identity.
    package let storeID: UUID
    /// The epoch.
    package let epoch: Int64
    /// The last purged transaction; sequence 0 and the root nonce where nothing was purged.
    package let purgedSequence: Int64
    package let purgedNonce: UInt64
    /// Everything up to here has been confirmed by the broker; nil while the store is not published.
    package let publishedSequence: Int64?

    /// The purge mark.
    package var mark: HistoryToken { token(purgedSequence, purgedNonce) }

    /// A token of this store and epoch.
    package func token(_ sequence: Int64, _ nonce: UInt64) -> HistoryToken {
        HistoryToken(storeID: storeID, epoch: epoch, sequence: sequence, nonce: nonce)
    }

    /// Far beyond what counting reaches.
    private static let lastEpoch: Int64 = 1 << 53

    static let sql =
        "SELECT uuid, epoch, purged_sequence, purged_nonce, published_sequence FROM history_store WHERE id = 1"

    /// Reads the state. Must run inside the transaction that relies on it.
    static func read(_ database: Database) throws -> StoreState {
        let states = try database.query(sql) { row in
            StoreState(
                storeID: try row.get(0), epoch: try row.get(1), purgedSequence: try row.get(2),
                purgedNonce: UInt64(bitPattern: try row.get(3)), publishedSequence: try row.get(4))
        }
        guard let state = states.first else {
            throw HistoryError(
                .damagedHistory, "\(database.path): history_store has no row: restore the file from a backup")
        }
        try checkRange(state.purgedSequence, database)
        guard (1...lastEpoch).contains(state.epoch) else {
            throw HistoryError(
                .damagedHistory, "\(database.path): \(state.epoch) cannot be an epoch: restore the file from a backup")
        }
        return state
    }

    /// Everybody counts on from sequences: one that only damage explains would overflow there.
    private static func checkRange(_ sequence: Int64, _ database: Database) throws(HistoryError) {
        guard (0..<RecordFormat.lastSequence).contains(sequence) else {
            throw HistoryError(
                .damagedHistory, "\(database.path): \(sequence) cannot be a sequence: restore the file from a backup")
        }
    }

    /// The newest transaction, or the purge mark where there is none.
    package func head(_ database: Database) throws -> HistoryToken {
        let rows = try database.query("SELECT sequence, nonce FROM history_transaction ORDER BY sequence DESC LIMIT 1")
        {
            row -> HistoryToken in
            token(try row.get(0), UInt64(bitPattern: try row.get(1)))
        }
        let head = rows.first ?? mark
        try Self.checkRange(head.sequence, database)
        return head
    }

    /// Proves that `token` stands in this store's history and that nothing behind it was purged.
    ///
    /// Throws `tokenInvalid` or `tokenExpired`. Must run inside the transaction that relies on it.
    package func check(_ token: HistoryToken, _ database: Database) throws {
        guard token.storeID == storeID else {
            throw HistoryError(
                .tokenInvalid,
                "the token is of store \(token.storeID), \(database.path) is \(storeID): resync from this store")
        }
        guard token.epoch == epoch else {
            throw HistoryError(
                .tokenInvalid, "the token is of epoch \(token.epoch), the store is in epoch \(epoch): resync")
        }
        guard token.sequence >= purgedSequence else {
            throw HistoryError(
                .tokenExpired,
                "history after sequence \(token.sequence) was purged up to \(purgedSequence): resync")
        }
        let nonce: UInt64
        if token.sequence == purgedSequence {
            nonce = purgedNonce
        } else {
            let sql = "SELECT nonce FROM history_transaction WHERE sequence = ?"
            guard let stored = try database.first(sql, token.sequence, as: Int64.self) else {
                let head = try head(database).sequence
                throw HistoryError(
                    .tokenInvalid,
                    "sequence \(token.sequence) is beyond the head \(head): its history was lost: resync")
            }
            nonce = UInt64(bitPattern: stored)
        }
        guard token.nonce == nonce else {
            throw HistoryError(
                .tokenInvalid,
                "sequence \(token.sequence) exists with another nonce: the token's history was lost: resync")
        }
    }
}
