package import TidingsSQLite

/// A row of `history_publisher`: how far an origin's own process has published it, and that it is alive.
package struct PublisherRecord: Sendable, Hashable {
    /// The origin.
    package let origin: String
    /// Everything that it wrote up to here is confirmed by the broker.
    package let confirmed: Int64
    /// Another value than before means that its publisher is alive; 0 that it has ended.
    package let heartbeat: Int64

    /// Makes a record.
    package init(origin: String, confirmed: Int64, heartbeat: Int64) {
        self.origin = origin
        self.confirmed = confirmed
        self.heartbeat = heartbeat
    }

    /// All of them.
    package static func all(_ database: Database) throws -> [PublisherRecord] {
        try database.query("SELECT origin, confirmed_sequence, heartbeat FROM history_publisher") { row in
            PublisherRecord(origin: try row.get(0), confirmed: try row.get(1), heartbeat: try row.get(2))
        }
    }

    /// That of one origin.
    package static func of(_ origin: String, _ database: Database) throws -> PublisherRecord? {
        let sql = "SELECT origin, confirmed_sequence, heartbeat FROM history_publisher WHERE origin = ?"
        return try database.query(sql, origin) { row in
            PublisherRecord(origin: try row.get(0), confirmed: try row.get(1), heartbeat: try row.get(2))
        }.first
    }

    /// Writes it. What was confirmed stays so.
    package func save(_ database: Database) throws {
        let sql = """
            INSERT INTO history_publisher(origin, confirmed_sequence, heartbeat) VALUES (?, ?, ?)
            ON CONFLICT(origin) DO UPDATE SET
                confirmed_sequence = max(confirmed_sequence, excluded.confirmed_sequence),
                heartbeat = excluded.heartbeat
            """
        try database.execute(sql, origin, confirmed, heartbeat)
    }

    /// Removes what nobody needs any more: publishers that have ended, and have nothing left that counts as unpublished.
    package static func removeEnded(_ state: StoreState, _ database: Database) throws {
        let sql = "DELETE FROM history_publisher WHERE heartbeat = 0 AND confirmed_sequence <= ?"
        try database.execute(sql, max(state.purgedSequence, state.publishedSequence ?? 0))
    }

    /// Removes a publisher of which nothing was heard for long, where it is as it was read.
    package func remove(_ database: Database) throws {
        let sql = "DELETE FROM history_publisher WHERE origin = ? AND confirmed_sequence = ? AND heartbeat = ?"
        try database.execute(sql, origin, confirmed, heartbeat)
    }
}

extension StoreState {
    /// The state as this transaction has left it.
    package static func current(_ database: Database) throws -> StoreState { try read(database) }

    /// Switches publishing on where it is off: everything that is there now is yet to be published.
    package static func switchPublishingOn(_ database: Database) throws {
        try database.execute(
            """
            UPDATE history_store SET published_sequence = purged_sequence
            WHERE id = 1 AND published_sequence IS NULL
            """)
    }

    /// Records that everything up to a sequence is confirmed by the broker.
    package static func publish(through sequence: Int64, _ database: Database) throws {
        try database.execute(
            "UPDATE history_store SET published_sequence = max(coalesce(published_sequence, 0), ?) WHERE id = 1",
            sequence)
    }

    /// Throws `tokenInvalid` where a token's history was lost. What was purged behind it does not matter.
    package func checkLineage(of token: HistoryToken, _ database: Database) throws {
        do {
            try check(token, database)
        } catch let error as HistoryError where error.code == .tokenExpired {}
    }

    /// The token of a transaction that is there, or of the mark where it is purged; nil beyond the head.
    package func token(at sequence: Int64, _ database: Database) throws -> HistoryToken? {
        if sequence <= purgedSequence { return mark }
        let sql = "SELECT nonce FROM history_transaction WHERE sequence = ?"
        return try database.first(sql, sequence, as: Int64.self).map { token(sequence, UInt64(bitPattern: $0)) }
    }
}

/// A transaction as its origin's: all that is looked at to find who has to publish it.
package struct OriginOfTransaction: Sendable, Hashable {
    /// Its place in the history.
    package let token: HistoryToken
    /// Who wrote it.
    package let origin: String

    /// Makes one.
    package init(token: HistoryToken, origin: String) {
        self.token = token
        self.origin = origin
    }

    /// The transactions after a token, in order.
    ///
    /// Throws `tokenInvalid`, `tokenExpired`.
    package static func after(
        _ token: HistoryToken, limit: Int, _ database: Database, _ state: StoreState
    ) throws -> [OriginOfTransaction] {
        try state.check(token, database)
        let sql = """
            SELECT sequence, nonce, origin FROM history_transaction WHERE sequence > ? ORDER BY sequence LIMIT ?
            """
        return try database.query(sql, token.sequence, limit) { row in
            OriginOfTransaction(
                token: state.token(row.int64(at: 0), UInt64(bitPattern: row.int64(at: 1))), origin: try row.get(2))
        }
    }
}

extension HistoryStore {
    /// The origins that have written through this store, and a number that changes with them.
    ///
    /// Whoever asks after having read a transaction of this store finds its origin among them.
    package func writtenOrigins() async throws -> (all: [HistoryOrigin], generation: Int) {
        try await writable().origins()
    }

    /// Forgets the origins that have written nothing after a sequence: contexts may be many, and short-lived.
    ///
    /// - Parameter token: at or after the sequence. Throws `tokenInvalid`, and forgets nobody, where its history was lost:
    ///   what was written since then has small sequences again.
    package func forgetOrigins(through sequence: Int64, in token: HistoryToken) async throws {
        try await writable().forgetOrigins(through: sequence, in: token)
    }
}
