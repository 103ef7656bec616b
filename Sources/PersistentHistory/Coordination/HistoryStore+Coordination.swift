internal import FoundationEssentials
internal import Glibc
package import TidingsSQLite

/// A moment of making a store durable.
package enum SyncMoment: Sendable {
    /// The log is about to be synced: what is committed by now will be in it.
    case before
    /// The log was synced.
    case after
}

/// Called around each sync of a store's log where a test has asked for it, on the thread that syncs. What it throws before
/// stands for what a full or failing disk makes of the sync, which then does not take place.
package typealias SyncObserver = @Sendable (SyncMoment) throws(HistoryError) -> Void

/// What agents that serve a store need besides reading and writing history.
extension HistoryStore {
    /// Runs `body`, which changes the history's own tables, in a write transaction that is none of the history.
    ///
    /// The state is read in the same transaction. Nothing that `body` writes gets a token.
    package func coordinate<R: Sendable>(
        _ body: @Sendable (Database, StoreState) throws -> R
    ) async throws -> R {
        try await writable().coordinate(body)
    }

    /// Runs `body` in one read transaction, with the state of the same moment.
    package func observe<R: Sendable>(_ body: @Sendable (Database, StoreState) throws -> R) async throws -> R {
        try await reader.read(body)
    }

    /// Records an act of operation: who did what, for those who ask later.
    package func audit(_ kind: String, actor: String, detail: String) async throws {
        try await coordinate { database, _ in
            try database.execute(
                "INSERT INTO history_audit(time, kind, actor, count, detail) VALUES (?, ?, ?, 1, ?)",
                SystemHistoryClock().microseconds, kind, actor, detail)
        }
    }

    /// The files whose locks make processes the store's relay and its cleaner.
    package var serviceLockPaths: [String] { ["relay", "cleaner"].map { "\(path)-\($0)" } }

    /// True where the store was opened for writing.
    package var isWritable: Bool { writer != nil }

    /// The file's version: another one than before means that some connection, this store's own included, has
    /// committed. Cheap: nothing is read but a counter in shared memory.
    package func dataVersion() async throws -> Int64 { try await reader.dataVersion() }

    /// Tells of commits through this store, as they happen; several are told as one while nobody listens. Ends when
    /// the store is closed. Throws `closed` where it is already.
    package func commits() async throws -> AsyncStream<Void> {
        let writer = try writable()
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let id = try await writer.observeCommits(continuation)
        continuation.onTermination = { _ in Task { await writer.forgetObserver(id) } }
        return stream
    }

    /// Makes all that was committed until now durable, whatever `synchronous` is: one `fdatasync` of the write-ahead log.
    ///
    /// What is in the log no more has been checkpointed, and SQLite syncs before it does that. The descriptor is one of
    /// its own: SQLite locks the other two files, never the log, so that closing it drops no lock.
    ///
    /// Blocks for the time of the sync (about 0.2 ms on an SSD). Throws `diskFull`, and `database` for any other reason;
    /// nothing is known to be durable then.
    package func makeDurable() throws(HistoryError) {
        try onSync?(.before)
        let log = path + "-wal"
        let descriptor = Glibc.open(log, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            // No log: everything is in the file, synced there.
            if errno == ENOENT {
                try onSync?(.after)
                return
            }
            throw HistoryError(.database, "\(log) cannot be opened to sync it: \(String(cString: strerror(errno)))")
        }
        defer { Glibc.close(descriptor) }
        guard fdatasync(descriptor) == 0 else {
            let isFull = errno == ENOSPC || errno == EDQUOT
            let message = "\(log) cannot be synced: \(String(cString: strerror(errno)))"
            throw HistoryError(isFull ? .diskFull : .database, isFull ? "\(message): free some space" : message)
        }
        try onSync?(.after)
    }

    /// Reads one page, and how far it reaches.
    package func fetch(_ request: HistoryRequest) async throws -> HistoryFetch {
        let page = try await reader.page(request, .transactionsWithChanges, after: nil)
        return HistoryFetch(transactions: page.transactions, token: page.cursor.token, isAtEnd: page.cursor.isAtEnd)
    }

    /// The nonces of the transactions before these, whose sequences ascend: what proves their chain to those who see
    /// messages only. nil where one is purged and is not the mark.
    package func previousNonces(of sequences: [Int64]) async throws -> [UInt64?] {
        try await reader.read { database, state in
            try database.withStatement("SELECT nonce FROM history_transaction WHERE sequence = ?") { statement in
                var nonces: [UInt64?] = []
                for sequence in sequences {
                    if sequence - 1 == state.purgedSequence {
                        nonces.append(state.purgedNonce)
                        continue
                    }
                    try statement.bind(sequence - 1, at: 1)
                    nonces.append(try statement.step() ? UInt64(bitPattern: statement.row.int64(at: 0)) : nil)
                    statement.reset()
                }
                return nonces
            }
        }
    }
}

/// One page of history, and how far it reaches.
package struct HistoryFetch: Sendable {
    /// The transactions that pass the request's filters.
    package let transactions: [HistoryTransaction]
    /// The last transaction looked at, delivered or not: where to go on. The request's start where there was none.
    package let token: HistoryToken
    /// True where the request is carried out: the head, as it was in the page's transaction, is reached.
    package let isAtEnd: Bool
}
