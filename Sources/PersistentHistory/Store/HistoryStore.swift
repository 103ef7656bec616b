public import FoundationEssentials
public import TidingsSQLite

/// A SQLite file with persistent history: every transaction that is written through it is recorded in the same
/// commit, and can be read back exactly.
///
/// ```swift
/// let store = try await HistoryStore.open("/data/main.db", author: "orders", create: true)
/// try await store.migrate { db in
///     try db.execute("CREATE TABLE IF NOT EXISTS article(id INTEGER PRIMARY KEY, title TEXT)")
/// }
/// try await store.track(.all)
/// let token = try await store.write(context: "import") { db in
///     try db.execute("INSERT INTO article(title) VALUES (?)", "Hello")
/// }.token
/// ```
///
/// One store has two connections, each on its own thread: one writes, the other reads. Closures run one after the
/// other on their thread and may block; cancelling the calling task does not stop one that has begun.
public final class HistoryStore: Sendable {
    /// How to open a store.
    public struct Options: Sendable {
        /// How much of a commit is waited for.
        public var synchronous: Synchronous = .normal
        /// How long to wait for another connection's lock before failing with `busy`.
        public var busyTimeout: Duration = .seconds(10)
        /// Whether a network file system is accepted, at one's own risk: write-ahead logging does not work across hosts.
        public var allowsNetworkFilesystem = false
        /// Where the time of transactions comes from.
        public var clock: any HistoryClock = SystemHistoryClock()
        /// The number of encoded bytes past which a transaction's history moves to a temporary file.
        public var spillThreshold = 256 * 1024
        package var onSync: SyncObserver?

        /// The defaults.
        public init() {}
    }

    /// Which tables to track.
    public enum Tables: Sendable, Hashable, ExpressibleByArrayLiteral {
        /// Every table of the user's that exists now.
        case all
        /// These tables.
        case named([String])

        /// These tables.
        public init(arrayLiteral names: String...) { self = .named(names) }
    }

    /// What a write returned, and where it stands in the history.
    public struct WriteResult<Value: Sendable>: Sendable {
        /// What the closure returned.
        public let value: Value
        /// The transaction's token; nil where no tracked row changed, and then there is no transaction in the history.
        public let token: HistoryToken?
    }

    /// The path of the file.
    public let path: String
    /// Who writes through this store.
    public let author: String
    /// The origin of what is written through this store and not by a context of its own.
    public let origin = HistoryOrigin()
    /// The store's identity.
    public let storeID: UUID
    /// The newest transaction when the store was opened: what is written through it comes after.
    package let openedAt: HistoryToken
    /// How much of a commit is waited for.
    package let synchronous: Synchronous
    let writer: HistoryWriter?
    let reader: HistoryReader
    /// Where the time of what Tidings itself notes comes from.
    let clock: any HistoryClock
    let onSync: SyncObserver?

    /// The author of what Tidings itself writes: tracking and purging by its command. A log must not show the two as one.
    static let operatorName = "tidings"

    private init(
        path: String, author: String, openedAt: HistoryToken, writer: HistoryWriter?, reader: HistoryReader,
        options: Options
    ) {
        self.path = path
        self.author = author
        storeID = openedAt.storeID
        self.openedAt = openedAt
        synchronous = options.synchronous
        self.writer = writer
        self.reader = reader
        clock = options.clock
        onSync = options.onSync
    }

    /// Opens a store for reading and writing.
    ///
    /// - Parameters:
    ///   - author: who writes, for example the service's name. Required: an empty one is refused, and so is Tidings'
    ///     own name, `tidings`, alone or before a slash.
    ///   - create: whether to create what is missing: the file, and in it the history's tables. An existing database
    ///     is thereby made a store; its own tables stay as they are.
    /// - Throws: ``HistoryError``: `invalidAuthor`, `cannotOpen`, `notAStore`, `notADatabase`, `unsupportedFormat`,
    ///   `unsupportedSQLite`, `networkFilesystem`, `readOnly`, `busy`, `diskFull`.
    public static func open(
        _ path: String, author: String, create: Bool = false, options: Options = Options()
    ) async throws -> HistoryStore {
        try validate(author: author)
        return try await openWriting(path, author: author, create: create, options: options)
    }

    /// Opens a store as Tidings itself, for what an operator does to it.
    package static func openAsOperator(
        _ path: String, create: Bool = false, options: Options = Options()
    ) async throws -> HistoryStore {
        try await openWriting(path, author: operatorName, create: create, options: options)
    }

    private static func openWriting(
        _ path: String, author: String, create: Bool, options: Options
    ) async throws -> HistoryStore {
        try validate(path, options)
        let writer = try HistoryWriter(path: path)
        let head = try await writer.open(options, create: create)
        let reader = try HistoryReader(path: path, besideWriterOf: head.storeID)
        try await reader.open(busyTimeout: options.busyTimeout)
        return HistoryStore(
            path: path, author: author, openedAt: head, writer: writer, reader: reader, options: options)
    }

    /// Opens a store for reading only. Neither the file nor the two beside it (`-wal`, `-shm`) are ever created.
    ///
    /// - Throws: ``HistoryError``: `storeUnavailable` (retriable) while no writer has opened the store; the others of
    ///   ``open(_:author:create:options:)``.
    public static func openReadOnly(_ path: String, options: Options = Options()) async throws -> HistoryStore {
        try validate(path, options)
        let reader = try HistoryReader(path: path, besideWriterOf: nil)
        try await reader.open(busyTimeout: options.busyTimeout)
        let head = try await reader.read { database, state in try state.head(database) }
        return HistoryStore(path: path, author: "", openedAt: head, writer: nil, reader: reader, options: options)
    }

    private static func validate(author: String) throws(HistoryError) {
        guard author.contains(where: { !$0.isWhitespace }) else {
            throw HistoryError(.invalidAuthor, "the author is empty: name who writes, for example the service")
        }
        guard author.utf8.count <= 128, author.unicodeScalars.allSatisfy({ $0.value >= 0x20 && $0.value != 0x7F })
        else {
            throw HistoryError(
                .invalidAuthor,
                "the author must be at most 128 bytes without control characters: it becomes part of queue names")
        }
        guard author != operatorName, !author.hasPrefix("\(operatorName)/") else {
            throw HistoryError(
                .invalidAuthor, "the author \(author) is reserved for Tidings itself: name who writes differently")
        }
    }

    private static func validate(_ path: String, _ options: Options) throws(HistoryError) {
        guard Database.libraryVersionNumber >= 3_040_000 else {
            throw HistoryError(
                .unsupportedSQLite, "SQLite \(Database.libraryVersion) is too old: 3.40 or later is needed")
        }
        guard !path.isEmpty, path != ":memory:" else {
            throw HistoryError(.cannotOpen, "a store needs a file: history in memory could be shared with nobody")
        }
        if !options.allowsNetworkFilesystem, let kind = Database.networkFilesystem(of: path) {
            throw HistoryError(
                .networkFilesystem,
                "\(path) lies on \(kind): write-ahead logging does not work across hosts; move the store to a local "
                    + "disk, or set allowsNetworkFilesystem if only this host ever opens it")
        }
    }

    /// Closes both connections; harmless when repeated. Calls under way finish first.
    public func close() async {
        await reader.close()
        await writer?.close()
    }

    // MARK: Writing

    /// Runs `body` in one tracked transaction: all of it is committed together with its history, or nothing.
    ///
    /// - Parameters:
    ///   - context: which part of the author writes; recorded with the transaction.
    ///   - origin: who writes, where a context of its own does; nil is the store itself.
    ///   - body: runs on the store's writing thread with the write lock held: keep it short. BEGIN, COMMIT and
    ///     ROLLBACK are refused inside; savepoints are fine.
    /// - Throws: what `body` throws, after a rollback: of its statements that is ``SQLiteError``, also for a full disk or a
    ///   failed constraint. Around it ``HistoryError``: `busy`; at the commit `diskFull`, `readOnly`, `constraint` (a
    ///   deferred foreign key), `rolledBack`; `closed`.
    @discardableResult
    public func write<R: Sendable>(
        context: String? = nil, origin: HistoryOrigin? = nil, _ body: @Sendable (Database) throws -> R
    ) async throws -> WriteResult<R> {
        let (value, token) = try await writable().write(identity(context, origin), body)
        return WriteResult(value: value, token: token)
    }

    /// Runs schema changes in one transaction, tracked like ``write(context:origin:_:)``.
    ///
    /// Tracked tables that get other columns are recorded under a new layout from that statement on.
    @discardableResult
    public func migrate<R: Sendable>(_ body: @Sendable (Database) throws -> R) async throws -> WriteResult<R> {
        try await write(context: "migrate", body)
    }

    /// Runs `body` in one read transaction: all that it reads is of one moment. Writing is refused.
    public func read<R: Sendable>(_ body: @Sendable (Database) throws -> R) async throws -> R {
        try await reader.run(body)
    }

    // MARK: Tracking

    /// Starts tracking tables: from here on every change of their rows is in the history.
    ///
    /// Tables that are tracked already stay as they are; other options than before are a new layout of the entity.
    ///
    /// - Parameter options: what to record of these tables.
    /// - Returns: the token of the transaction that records the beginning; nil where nothing was new.
    /// - Throws: ``HistoryError``: `noSuchEntity`; `untrackable` for a table without a declared primary key, a view,
    ///   a virtual table, or options that do not fit. Nothing is tracked then.
    @discardableResult
    public func track(_ tables: Tables, options: TrackingOptions = TrackingOptions()) async throws -> HistoryToken? {
        try await writable().track(tables, options, identity("track", nil))
    }

    /// Stops tracking tables. Their history stays readable until it is purged.
    ///
    /// - Throws: ``HistoryError``: `noSuchEntity` where one is not tracked.
    @discardableResult
    public func untrack(_ tables: Tables) async throws -> HistoryToken? {
        try await writable().untrack(tables, identity("untrack", nil))
    }

    func writable() throws(HistoryError) -> HistoryWriter {
        guard let writer else {
            throw HistoryError(.readOnly, "\(path) was opened for reading only: open it with an author to write")
        }
        return writer
    }

    private func identity(_ context: String?, _ origin: HistoryOrigin?) -> HistoryRecorder.Writer {
        HistoryRecorder.Writer(author: author, contextName: context, origin: origin ?? self.origin)
    }
}
