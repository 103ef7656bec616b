public import PersistentHistory
internal import TidingsSQLite

/// A SQLite file with the tracked tables of a store, kept in step by history alone: a copy to query without touching
/// the store, in another place, with indexes of its own.
///
/// ```swift
/// let projection = ProjectionContext("/data/search/articles.db", entities: ["article"])
/// let consumer = HistoryConsumer(store, name: "search", contexts: [projection], broker: broker)
/// ```
///
/// Tables have the columns that history keeps, with their declared types and primary keys; without triggers, foreign
/// keys, other constraints and collations, so that rows can be put in as they come. Rows and token commit together, with
/// `synchronous=FULL`: every transaction has its effect exactly once, through any crash. Merging again what has been
/// merged changes nothing.
///
/// The file is read by any SQLite connection. Indexes may be added to it; other tables are best kept elsewhere.
public actor ProjectionContext: MergeContext {
    /// The name, unique among the contexts of a consumer.
    public nonisolated let name: String
    /// The path of the file.
    public nonisolated let path: String
    /// True: the token is in the file, committed with the rows.
    public nonisolated var isDurable: Bool { true }
    /// True.
    public nonisolated var canLoad: Bool { true }

    /// The entities asked for.
    private let scope: ProjectionScope
    private let busyTimeout: Duration
    private let thread: ThreadExecutor
    private var database: Database?
    /// True while a transaction of the file is open across suspensions.
    private var isWorking = false

    /// The thread on which the file is read and written.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { thread.asUnownedSerialExecutor() }

    /// A projection in a file. Nothing is opened before the first call of a consumer.
    ///
    /// - Parameters:
    ///   - path: the file; created where it is missing.
    ///   - name: unique among the contexts of a consumer.
    ///   - entities: the tracked tables to keep; nil is all, those too that are tracked later. The case of names does not
    ///     count. Where a file was made with another list, tables that are not on this one are dropped; with one that had
    ///     not all of these, it is loaded anew: until then it has no token.
    ///   - busyTimeout: how long to wait for another connection to the file.
    /// - Throws: ``HistoryError`` where the system starts no more threads.
    public init(
        _ path: String, name: String = "projection", entities: Set<String>? = nil, busyTimeout: Duration = .seconds(10)
    ) throws {
        self.path = path
        self.name = name
        scope = ProjectionScope(entities)
        self.busyTimeout = busyTimeout
        thread = try HistoryError.threadStarted("projection", for: path)
    }

    /// Closes the file; harmless when repeated. The next call opens it again.
    public func close() {
        guard !isWorking else { return }
        database?.close()
        database = nil
    }

    /// The token up to which the rows stand; nil where nothing was loaded or merged yet, and where entities are asked for
    /// that the file was not made with: their rows are not there.
    ///
    /// - Throws: ``HistoryError``: `cannotOpen` where the file is a store, or a database of another program.
    public func durableToken() async throws -> HistoryToken? {
        let database = try idle()
        return try reporting("reading the projection") { try token(database) }
    }

    /// Makes the tables anew from the rows of a store, in one transaction and in memory that does not grow with them.
    ///
    /// A snapshot of every tracked table replaces all. One of some only replaces these, and leaves the token: later merges
    /// leave out the changes that the rows of these tables hold already.
    ///
    /// - Throws: ``HistoryError``; the file stays as it was then.
    public func load(_ snapshot: HistorySnapshot) async throws {
        try await transact("loading the projection") { database in
            let stored = try token(database)
            var tables = try ProjectionTables(database)
            if snapshot.isWhole {
                try tables.dropAll()
                try ProjectionFile.store(scope, database)
            } else if try isIncomplete(database) {
                throw incomplete()
            } else if let stored {
                try check(snapshot.token, against: stored)
            }
            for entity in snapshot.entities where isWanted(entity.name) {
                guard snapshot.isWhole || entity.sequence >= stored?.sequence ?? 0 else {
                    throw HistoryError(
                        .invalidRequest,
                        "\(path) stands at sequence \(stored?.sequence ?? 0), the snapshot at \(entity.sequence): "
                            + "take a newer one")
                }
                let table = ProjectedTable(entity)
                try tables.recreate(table, loaded: entity.sequence)
                for try await rows in snapshot.rows(of: entity) { try tables.insert(rows, into: table) }
            }
            if snapshot.isWhole || stored == nil { try ProjectionFile.store(snapshot.token, database) }
        }
    }

    /// Merges a batch in one transaction: its changes, without those of transactions that are merged already, and its token.
    ///
    /// Where entities are asked for that the file was not made with, a batch without transactions is a new beginning, with
    /// nothing of what was there.
    ///
    /// - Throws: ``HistoryError``: `tokenInvalid` where the rows are of another store or epoch, or of history that was lost,
    ///   `invalidRequest` where they lack entities that are asked for: load anew. The file stays as it was then.
    public func merge(_ batch: HistoryBatch) async throws {
        try await transact("merging into the projection") { database in
            let stored = try token(database)
            if let stored { try check(batch, against: stored) }
            var tables = try ProjectionTables(database)
            if try isIncomplete(database) {
                guard batch.transactions.isEmpty else { throw incomplete() }
                try tables.dropAll()
                try ProjectionFile.store(scope, database)
            }
            for transaction in batch.transactions {
                let sequence = transaction.token.sequence
                guard sequence > stored?.sequence ?? -1 else { continue }
                try await transaction.forEachRecord { record in
                    switch record {
                    case .change(let change):
                        guard isWanted(change.entity), !tables.isLoaded(change.entity, through: sequence) else {
                            return
                        }
                        try tables.apply(change)
                    case .schema(let kind, let layout):
                        guard isWanted(layout.entity), !tables.isLoaded(layout.entity, through: sequence) else {
                            return
                        }
                        try tables.apply(kind, layout)
                    }
                }
            }
            if batch.token.sequence > stored?.sequence ?? -1 { try ProjectionFile.store(batch.token, database) }
        }
    }

    private func isWanted(_ entity: String) -> Bool { scope.contains(entity) }

    /// The token that counts: none where rows of some entities are not there.
    private func token(_ database: Database) throws -> HistoryToken? {
        try isIncomplete(database) ? nil : ProjectionFile.token(database)
    }

    /// True where the file was made with a list of entities that lacks some of these.
    private func isIncomplete(_ database: Database) throws -> Bool { try ProjectionFile.scope(database) != scope }

    private func incomplete() -> HistoryError {
        HistoryError(
            .invalidRequest,
            "\(path) was made with a list of entities that lacks some of those asked for now: load it from a snapshot of all"
        )
    }

    /// Proves that a batch stands in one history with the rows, as far as it tells.
    private func check(_ batch: HistoryBatch, against stored: HistoryToken) throws(HistoryError) {
        try check(batch.token, against: stored)
        let same = batch.transactions.first { $0.token.sequence >= stored.sequence }?.token
        if let same, same.sequence == stored.sequence { try check(same, against: stored) }
    }

    /// Proves that two tokens stand in one history, as far as they tell.
    private func check(_ token: HistoryToken, against stored: HistoryToken) throws(HistoryError) {
        let isSameLineage = token.storeID == stored.storeID && token.epoch == stored.epoch
        guard isSameLineage, token.sequence != stored.sequence || token.nonce == stored.nonce else {
            throw HistoryError(
                .tokenInvalid,
                "\(path) stands at \(stored), which is not in the history of \(token): load the projection anew")
        }
    }

    // MARK: The file

    private func idle() throws(HistoryError) -> Database {
        guard !isWorking else {
            throw HistoryError(.busy, "\(path): the projection is being loaded or merged into: one call at a time")
        }
        if let database { return database }
        do {
            let opened = try ProjectionFile.open(path, busyTimeout: busyTimeout, scope: scope)
            database = opened
            return opened
        } catch {
            throw error as? HistoryError
                ?? HistoryError(.database, "\(path): opening the projection failed", underlyingError: error)
        }
    }

    /// Runs `body` in one write transaction. It may suspend: nobody else gets at the file meanwhile.
    private func transact(_ doing: String, _ body: (Database) async throws -> Void) async throws {
        let database = try idle()
        isWorking = true
        defer { isWorking = false }
        do {
            try database.execute("BEGIN IMMEDIATE")
            try await body(database)
            try database.execute("COMMIT")
        } catch {
            database.rollBack()
            guard let error = error as? SQLiteError else { throw error }
            throw HistoryError(error, while: doing, path: path)
        }
    }

    private func reporting<R>(_ doing: String, _ body: () throws -> R) throws -> R {
        do {
            return try body()
        } catch let error as SQLiteError {
            throw HistoryError(error, while: doing, path: path)
        }
    }
}
