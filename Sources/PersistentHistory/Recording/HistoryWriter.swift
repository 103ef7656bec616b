internal import FoundationEssentials
internal import TidingsSQLite

/// The writing side of a store: the connection that records, on a thread of its own.
actor HistoryWriter {
    private let executor: ThreadExecutor
    private let path: String
    private var database: Database?
    private var recorder: HistoryRecorder?
    /// How it was opened; nil before that, and once it is closed.
    private var options: HistoryStore.Options?
    /// Which store it writes: a file that is put in the place of the one that is open must be of the same.
    private var storeID: UUID?
    /// When it was last looked whether the path still leads to the file that is open.
    private var lookedAt = ContinuousClock.now
    /// Who is told of commits, by number.
    private var commitObservers: [Int: AsyncStream<Void>.Continuation] = [:]
    private var lastObserver = 0
    private var written = WrittenOrigins()

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    /// Starts the thread.
    init(path: String) throws(HistoryError) {
        self.path = path
        executor = try HistoryError.threadStarted("history-write", for: path)
    }

    /// Opens the connection and, where asked to, makes the file a store. Returns the newest transaction's token.
    func open(_ options: HistoryStore.Options, create: Bool) throws -> HistoryToken {
        do {
            let hook = CaptureHook()
            // A file that is there is not touched before it is known to be, or has become, a store.
            let isNew = create && !Database.exists(path)
            let opened = try Database(
                path: path,
                options: OpenOptions(
                    access: create ? .create : .readWrite, busyTimeout: options.busyTimeout,
                    synchronous: options.synchronous, usesWriteAheadLog: isNew, statementCacheLimit: 128))
            try opened.hidingChanges { try Self.initialise(opened, options, create: create) }
            // Nor before it is known to be the same as before.
            storeID = try HistorySchema.storeID(opened, expected: storeID)
            if !isNew { try opened.enterWriteAheadLog() }
            // Before any user's statement is prepared: one prepared earlier could bypass the hook.
            try opened.installPreupdateHook(hook)
            try opened.installChangeCounters()
            opened.setPolicy(WritePolicy.decide)
            let recorder = try opened.internally {
                try HistoryRecorder(
                    opened, hook: hook, clock: options.clock, spillThreshold: options.spillThreshold)
            }
            let head = try opened.internally {
                try opened.transaction(.deferred) { try StoreState.read(opened).head(opened) }
            }
            database = opened
            self.recorder = recorder
            self.options = options
            lookedAt = .now
            return head
        } catch let error as SQLiteError {
            throw HistoryError(error, while: "opening the store", path: path)
        }
    }

    private static func initialise(_ database: Database, _ options: HistoryStore.Options, create: Bool) throws {
        if create {
            try database.transaction {
                guard try !HistorySchema.exists(database) else { return }
                try HistorySchema.create(database, clock: options.clock)
            }
        }
        try HistorySchema.checkFormat(database)
    }

    func close() {
        recorder = nil
        database?.close()
        database = nil
        options = nil
        for observer in commitObservers.values { observer.finish() }
        commitObservers = [:]
    }

    /// The connection and its recorder.
    ///
    /// - Parameter looksNow: whether a file that was put in the place of the open one may not go unnoticed even for a
    ///   moment: a reader may have seen it already, and what follows from that belongs there.
    func parts(looksNow: Bool = false) throws -> (Database, HistoryRecorder) {
        guard let options else { throw HistoryError(.closed, "\(path): the store is closed: open it again") }
        try reopenIfReplaced(options, looksNow: looksNow)
        guard let database, let recorder else {
            throw HistoryError(.closed, "\(path): the store is closed: open it again")
        }
        return (database, recorder)
    }

    /// How long a file that was put in the place of the one that is open may go unnoticed: looking each time would cost
    /// a small transaction a few per cent.
    private static let lookInterval: Duration = .milliseconds(100)

    /// Opens the file anew where somebody has put another in its place, such as a backup: what went on being written to the
    /// old one would be lost.
    private func reopenIfReplaced(_ options: HistoryStore.Options, looksNow: Bool) throws {
        if let database {
            let now = ContinuousClock.now
            guard looksNow || now - lookedAt >= Self.lookInterval else { return }
            lookedAt = now
            guard database.hasMoved else { return }
        }
        recorder = nil
        database?.close()
        database = nil
        _ = try open(options, create: false)
    }

    /// Runs `body` in one tracked transaction.
    func write<R>(_ writer: HistoryRecorder.Writer, _ body: (Database) throws -> R) throws -> (R, HistoryToken?) {
        let (database, recorder) = try parts()
        return try record(recorder, writer) { try body(database) }
    }

    /// Runs `body`, which may use the connection as Tidings itself, in one tracked transaction.
    private func record<R>(
        _ recorder: HistoryRecorder, _ writer: HistoryRecorder.Writer, _ body: () throws -> R
    ) throws -> (R, HistoryToken?) {
        try reporting("beginning a write transaction") { try recorder.begin() }
        // A database that stays attached could become a store, and then be written without history.
        defer { database?.detachAll() }
        do {
            let result = try body()
            let token = try reporting("committing") { try recorder.commit(writer) }
            if let token {
                written.note(writer.origin, token.sequence)
                for observer in commitObservers.values { observer.yield() }
            }
            return (result, token)
        } catch {
            recorder.rollBack()
            throw error
        }
    }

    /// Gives SQLite's errors outside a user's closure the store's words.
    private func reporting<R>(_ doing: String, _ body: () throws -> R) throws -> R {
        do {
            return try body()
        } catch let error as SQLiteError {
            throw HistoryError(error, while: doing, path: path)
        }
    }

    /// Runs `body`, which changes the history's own tables, in a write transaction that is none of the history.
    func coordinate<R: Sendable>(_ body: @Sendable (Database, StoreState) throws -> R) throws -> R {
        let (database, recorder) = try parts(looksNow: true)
        let result = try reporting("writing the history's own tables") { try recorder.coordinate(database, body) }
        if result.found != nil { for observer in commitObservers.values { observer.yield() } }
        return result.value
    }

    /// Adds somebody who is told of every transaction of the history that is committed through this store.
    func observeCommits(_ observer: AsyncStream<Void>.Continuation) throws -> Int {
        _ = try parts()
        lastObserver += 1
        commitObservers[lastObserver] = observer
        return lastObserver
    }

    /// The origins that have written through this store. Whoever asks after having seen a commit finds its origin.
    func origins() -> (all: [HistoryOrigin], generation: Int) { (written.all, written.generation) }

    /// Forgets origins that have written nothing after a sequence of a token's lineage; whoever of them writes again is known
    /// again.
    func forgetOrigins(through sequence: Int64, in token: HistoryToken) throws {
        try coordinate { database, state in try state.checkLineage(of: token, database) }
        written.forget(through: sequence)
    }

    /// Takes somebody out again.
    func forgetObserver(_ id: Int) { commitObservers[id] = nil }

    // MARK: Tracking

    /// Starts tracking tables that are not tracked yet, and gives the others new options where they differ.
    func track(
        _ tables: HistoryStore.Tables, _ options: TrackingOptions, _ writer: HistoryRecorder.Writer
    ) throws -> HistoryToken? {
        let (database, recorder) = try parts(looksNow: true)
        return try record(recorder, writer) {
            try reporting("tracking") {
                try database.internally {
                    try database.hidingChanges { try recorder.track(try names(tables, database), options) }
                }
            }
        }.1
    }

    /// Stops tracking tables.
    func untrack(_ tables: HistoryStore.Tables, _ writer: HistoryRecorder.Writer) throws -> HistoryToken? {
        let (database, recorder) = try parts(looksNow: true)
        return try record(recorder, writer) {
            try reporting("untracking") {
                try database.internally {
                    let names =
                        switch tables {
                        case .all: recorder.tracking.layouts.map(\.entity)
                        case .named(let names): names
                        }
                    try database.hidingChanges { try recorder.untrack(names) }
                }
            }
        }.1
    }

    private func names(_ tables: HistoryStore.Tables, _ database: Database) throws -> [String] {
        switch tables {
        case .all: try TableInspector.userTables(database)
        case .named(let names): names
        }
    }

    // MARK: Purging

    /// Purges one chunk of the oldest transactions, and none at or behind the order's bound.
    func purge(_ order: PurgeOrder, _ audit: PurgeAudit) throws -> PurgedChunk {
        let (database, recorder) = try parts(looksNow: true)
        return try reporting("purging history") {
            try recorder.purge(order, audit, database)
        }
    }
}
