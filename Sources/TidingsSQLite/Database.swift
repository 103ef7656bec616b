internal import CTidingsSQLite

/// One connection to a database, lent to a closure on the connection's own thread.
///
/// Not Sendable: the compiler keeps it inside the closure that received it.
///
/// [Database connection handle](https://www.sqlite.org/c3ref/sqlite3.html)
@safe
public final class Database {
    /// Owned: closed by ``close()`` or in `deinit`.
    private(set) var handle: OpaquePointer?
    /// The path of the file, as it was given.
    public let path: String
    /// Called around statements that users run; the recorder's place. Not called for internal statements.
    package var observer: (any StatementObserver)?
    /// True while the library itself runs statements: neither policy nor observer apply.
    package private(set) var isInternal = false
    /// True where the transaction that is still meant to be open has ended: an error has rolled it back.
    package var isAborted: Bool { isTransactionExpected && !isInTransaction }

    private let busyHandler: BusyHandler
    private let authorizer = Authorizer()
    private let cacheLimit: Int
    private var cache: [String: Statement] = [:]
    private var uses: UInt64 = 0
    /// True between a begin and the commit or rollback that belongs to it.
    private var isTransactionExpected = false
    /// The blob through which a write is under way.
    package weak var writingBlob: Blob?
    /// The count of changes as users know it, where the latest change was the library's own.
    private var maskedChanges: Int?
    /// Changes of the library's own in SQLite's total.
    private var hiddenChanges = 0
    /// Objects that callbacks of this connection refer to without retaining them.
    var callbackContexts: [AnyObject] = []

    /// Opens a connection.
    ///
    /// Throws `cannotOpen` with the remedy where the file is missing or out of reach, `notADatabase`, `busy`.
    package init(path: String, options: OpenOptions = OpenOptions()) throws(SQLiteError) {
        self.path = path
        busyHandler = BusyHandler(timeout: options.busyTimeout)
        cacheLimit = options.statementCacheLimit
        try Self.checkFiles(path: path, access: options.access)
        try open(options)
        do throws(SQLiteError) {
            try configure(options)
        } catch {
            close()
            throw SQLiteError(
                extendedCode: error.extendedCode, message: "cannot open \(path): \(error.message)")
        }
    }

    deinit { close() }

    /// Closes the connection; harmless when repeated. Statements of the cache are finalized first.
    package func close() {
        cache.removeAll()
        guard let owned = unsafe handle else { return }
        unsafe handle = nil
        // v2: statements that someone still holds keep the file open only until they go.
        unsafe sqlite3_close_v2(owned)
        observer = nil
        callbackContexts.removeAll()
    }

    private func open(_ options: OpenOptions) throws(SQLiteError) {
        var flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
        switch options.access {
        case .readOnly: flags |= SQLITE_OPEN_READONLY
        case .readWrite: flags |= SQLITE_OPEN_READWRITE
        case .create: flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
        }
        var opened: OpaquePointer?
        // Debian's library reads `file:…` as a URI even unasked, whose parameters can turn locks off. A path is a path.
        // [URI filenames](https://www.sqlite.org/uri.html)
        let name = path.hasPrefix("file:") ? "./\(path)" : path
        let code = unsafe sqlite3_open_v2(name, &opened, flags, nil)
        guard code == SQLITE_OK, let connection = unsafe opened else {
            let message = unsafe opened.map { unsafe String(cString: sqlite3_errmsg($0)) } ?? "out of memory"
            unsafe sqlite3_close_v2(opened)
            throw SQLiteError(extendedCode: code, message: "cannot open \(path): \(message)")
        }
        unsafe handle = connection
        // Before any other statement: even a pragma can meet a lock.
        unsafe busyHandler.install(on: connection)
        unsafe authorizer.install(on: connection)
    }

    private func configure(_ options: OpenOptions) throws(SQLiteError) {
        if options.access == .readOnly { try checkCompanions() }
        try internally { () throws(SQLiteError) in
            if options.usesWriteAheadLog {
                if options.access != .readOnly { try enterWriteAheadLog() }
            }
            try execute("PRAGMA synchronous = \(options.synchronous.rawValue)")
            try execute("PRAGMA foreign_keys = \(options.enforcesForeignKeys ? "ON" : "OFF")")
            if options.access == .readOnly { try execute("PRAGMA query_only = ON") }
        }
    }

    /// Switches the file to write-ahead logging.
    package func enterWriteAheadLog() throws(SQLiteError) {
        // Several connections that switch a new file at once would wait for each other: SQLite fails at once instead.
        let patience = BusyHandler(timeout: .nanoseconds(Int64(busyHandler.timeout)))
        var attempt: Int32 = 0
        var mode: String?
        while mode == nil {
            do throws(SQLiteError) {
                try internally { () throws(SQLiteError) in
                    mode = try first("PRAGMA journal_mode = WAL") ?? "unknown"
                }
            } catch {
                guard error.code == .busy, patience.wait(attempt: attempt) else { throw error }
                attempt += 1
            }
        }
        // An in-memory database keeps its own mode.
        guard mode == "wal" || mode == "memory" else {
            throw SQLiteError(
                .cannotOpen,
                "write-ahead logging is not possible (the journal mode stays \(mode ?? "")): "
                    + "the file system must support shared memory, and no other connection may be in a transaction")
        }
        // The log stays when the last connection closes, so that read-only users find it.
        var persists: Int32 = 1
        unsafe sqlite3_file_control(handle, "main", SQLITE_FCNTL_PERSIST_WAL, &persists)
    }

    // MARK: Statements

    /// Runs SQL. Without values it may hold several statements, run one after the other; rows are discarded.
    ///
    /// - Parameter values: bound to the parameters in order; their number must be exact.
    /// - Throws: ``SQLiteError``; of several statements the ones before the failing one have run.
    public func execute<each Value: SQLiteBindable>(
        _ sql: String, _ values: repeat each Value
    ) throws(SQLiteError) {
        var bindings: [any SQLiteBindable] = []
        for value in repeat each values { bindings.append(value) }
        if bindings.isEmpty {
            try executeScript(sql)
        } else {
            let statement = try statement(sql)
            defer { release(statement) }
            try bind(bindings, to: statement)
            while try statement.step() {}
        }
    }

    /// Runs a query and returns what `body` makes of each row.
    public func query<each Value: SQLiteBindable, Element>(
        _ sql: String, _ values: repeat each Value, body: (Row) throws -> Element
    ) throws -> [Element] {
        var bindings: [any SQLiteBindable] = []
        for value in repeat each values { bindings.append(value) }
        let statement = try statement(sql)
        defer { release(statement) }
        try bind(bindings, to: statement)
        var elements: [Element] = []
        while try statement.step() { elements.append(try body(Row(statement: statement))) }
        return elements
    }

    /// Runs a query and returns all values of all rows.
    public func rows<each Value: SQLiteBindable>(
        _ sql: String, _ values: repeat each Value
    ) throws -> [[SQLiteValue]] {
        try query(sql, repeat each values) { $0.values }
    }

    /// Runs a query and returns the first column of its first row; nil where there is no row.
    public func first<each Value: SQLiteBindable, Element: SQLiteReadable>(
        _ sql: String, _ values: repeat each Value, as type: Element.Type = Element.self
    ) throws(SQLiteError) -> Element? {
        var bindings: [any SQLiteBindable] = []
        for value in repeat each values { bindings.append(value) }
        let statement = try statement(sql)
        defer { release(statement) }
        try bind(bindings, to: statement)
        guard try statement.step() else { return nil }
        let value = try Row(statement: statement).get(0, as: type)
        // The rest of a writing statement's work, foreign keys and the commit among it, is done after its last row.
        if !statement.isReadOnly { while try statement.step() {} }
        return value
    }

    /// Lends a statement of the cache, reset and without bindings, to `body`: for loops that bind and step themselves.
    public func withStatement<R>(_ sql: String, _ body: (Statement) throws -> R) throws -> R {
        let statement = try statement(sql)
        defer { release(statement) }
        let result = try body(statement)
        try statement.finish()
        return result
    }

    private func bind(_ values: [any SQLiteBindable], to statement: Statement) throws(SQLiteError) {
        guard values.count == statement.parameterCount else {
            throw SQLiteError(
                .range, "the statement has \(statement.parameterCount) parameters, \(values.count) values were given",
                sql: statement.sql)
        }
        var index = 1
        for value in values {
            try value.bind(to: statement, at: index)
            index += 1
        }
    }

    /// A statement of the cache that is not in use, or a new one.
    private func statement(_ sql: String) throws(SQLiteError) -> Statement {
        uses &+= 1
        // What the library has prepared for itself is not for users: the policy never saw it.
        if let cached = cache[sql], cached.sql.utf8.elementsEqual(sql.utf8), !cached.isInUse,
            cached.isInternal == isInternal
        {
            cached.isInUse = true
            cached.lastUse = uses
            return cached
        }
        let statement = try prepare(sql)
        statement.isInUse = true
        statement.lastUse = uses
        if cache[sql] == nil, !statement.changesSchema {
            if cache.count >= cacheLimit { evict() }
            if cache.count < cacheLimit { cache[sql] = statement }
        }
        return statement
    }

    private func release(_ statement: Statement) {
        statement.reset()
        statement.clearBindings()
        statement.isInUse = false
    }

    private func evict() {
        let oldest = cache.filter { !$0.value.isInUse }.min { $0.value.lastUse < $1.value.lastUse }
        if let oldest { cache.removeValue(forKey: oldest.key) }
    }

    /// Prepares one statement outside the cache.
    package func prepare(_ sql: String) throws(SQLiteError) -> Statement {
        let (statement, tail) = try prepare(sql, from: 0)
        guard let statement else { throw SQLiteError(.error, "no SQL statement", sql: sql) }
        if try prepare(sql, from: tail).statement != nil {
            throw SQLiteError(.error, "several statements where one is expected: run them one by one", sql: sql)
        }
        return statement
    }

    private func executeScript(_ sql: String) throws(SQLiteError) {
        if let cached = cache[sql], cached.sql.utf8.elementsEqual(sql.utf8), !cached.isInUse {
            let statement = try statement(sql)
            defer { release(statement) }
            while try statement.step() {}
            return
        }
        var position = 0
        while true {
            let (statement, tail) = try prepare(sql, from: position)
            guard let statement else { return }
            guard statement.parameterCount == 0 else {
                throw SQLiteError(
                    .range, "the statement has \(statement.parameterCount) parameters, no values were given",
                    sql: statement.sql)
            }
            while try statement.step() {}
            position = tail
        }
    }

    /// Prepares the statement that starts at a byte of the SQL; nil where only space and comments are left.
    private func prepare(_ sql: String, from offset: Int) throws(SQLiteError) -> (statement: Statement?, tail: Int) {
        guard offset > 0 || !sql.utf8.contains(0) else {
            throw SQLiteError(.error, "the SQL holds a NUL character, at which SQLite would stop reading", sql: sql)
        }
        var prepared: OpaquePointer?
        var end = offset
        authorizer.sawSchemaChange = false
        authorizer.denial = nil
        // Up to the NUL that ends the string: with a length SQLite would copy all that is left of a script each time.
        let code = unsafe sql.withCString { characters in
            var tail: UnsafePointer<CChar>?
            let code = unsafe sqlite3_prepare_v3(
                handle, characters + offset, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &prepared, &tail)
            unsafe end = tail.map { unsafe $0 - characters } ?? sql.utf8.count
            return code
        }
        guard code == SQLITE_OK else {
            if let denial = authorizer.denial { throw SQLiteError(.notAuthorized, denial, sql: sql) }
            throw error(code, sql: sql)
        }
        guard let owned = unsafe prepared else { return (nil, end) }
        let whole = offset == 0 && end >= sql.utf8.count
        let own = whole ? sql : String(decoding: sql.utf8.dropFirst(offset).prefix(end - offset), as: UTF8.self)
        return unsafe (
            Statement(
                handle: owned, database: self, sql: own, changesSchema: authorizer.sawSchemaChange,
                isInternal: isInternal), end
        )
    }

    // MARK: State

    /// The rowid of the latest insert into a rowid table.
    ///
    /// [sqlite3_last_insert_rowid](https://www.sqlite.org/c3ref/last_insert_rowid.html)
    public package(set) var lastInsertedRowID: Int64 {
        get { unsafe sqlite3_last_insert_rowid(handle) }
        set { unsafe sqlite3_set_last_insert_rowid(handle, newValue) }
    }

    /// The number of rows that the latest INSERT, UPDATE or DELETE changed, cascades and triggers left out.
    public var changes: Int { maskedChanges ?? Int(unsafe sqlite3_changes64(handle)) }

    /// The number of rows that the latest statement changed, the library's own statements included.
    package var latestChanges: Int { Int(unsafe sqlite3_changes64(handle)) }

    /// The number of rows changed since the connection was opened, those of the library's own tables left out.
    public var totalChanges: Int { Int(unsafe sqlite3_total_changes64(handle)) - hiddenChanges }

    /// Runs statements of the library's own so that no user sees a trace of them: neither in the count of changes,
    /// in Swift or in SQL, nor in the last inserted rowid.
    package func hidingChanges<R>(_ body: () throws -> R) throws -> R {
        let counts = keepCounts()
        defer { restore(counts) }
        return try body()
    }

    /// What users know of changes: see ``hidingChanges(_:)``.
    package struct ChangeCounts {
        fileprivate let rowID: Int64
        fileprivate let changes: Int
        fileprivate let total: Int64
    }

    /// The counts before statements of the library's own; follow with ``restore(_:)``.
    package func keepCounts() -> ChangeCounts {
        ChangeCounts(
            rowID: lastInsertedRowID, changes: changes, total: unsafe sqlite3_total_changes64(handle))
    }

    /// Makes the counts what they were, as users see them.
    package func restore(_ counts: ChangeCounts) {
        lastInsertedRowID = counts.rowID
        maskedChanges = counts.changes
        hiddenChanges += Int(unsafe sqlite3_total_changes64(handle) - counts.total)
    }

    /// True inside a transaction.
    public var isInTransaction: Bool { unsafe sqlite3_get_autocommit(handle) == 0 }

    /// A number that differs whenever the file's content may have changed since it was last read: by this
    /// connection or another. A change of another connection shows only once this one has read again.
    ///
    /// [SQLITE_FCNTL_DATA_VERSION](https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html)
    package var dataVersion: UInt32 {
        var version: UInt32 = 0
        unsafe sqlite3_file_control(handle, "main", SQLITE_FCNTL_DATA_VERSION, &version)
        return version
    }

    /// True where the path leads to another file than the one that is open: somebody has put one in its place.
    ///
    /// [SQLITE_FCNTL_HAS_MOVED](https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html)
    package var hasMoved: Bool {
        var moved: Int32 = 0
        unsafe sqlite3_file_control(handle, "main", SQLITE_FCNTL_HAS_MOVED, &moved)
        return moved != 0
    }

    /// Eight random bytes from SQLite's generator, which the operating system seeds.
    package func randomInt64() -> Int64 {
        var value: Int64 = 0
        unsafe sqlite3_randomness(8, &value)
        return value
    }

    /// Sets the policy that decides on the statements of users. Called when statements are prepared.
    package func setPolicy(_ policy: @escaping (AuthorizedAction) -> AuthorizationDecision) {
        cache.removeAll()
        authorizer.policy = policy
    }

    /// Detaches every database that statements have attached. Outside a transaction; harmless where there is none.
    package func detachAll() {
        guard authorizer.sawAttach else { return }
        authorizer.sawAttach = false
        internally {
            let sql = "SELECT name FROM pragma_database_list WHERE name NOT IN ('main', 'temp')"
            let names = (try? query(sql) { row in try row.get(0, as: String.self) }) ?? []
            for name in names {
                let quoted = name.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"")
                // What a statement still reads stays attached, and is tried again the next time.
                if (try? execute("DETACH \"\(quoted)\"")) == nil { authorizer.sawAttach = true }
            }
        }
    }

    /// Why the policy refuses an action of a user; nil where it allows it.
    func denial(of action: AuthorizedAction) -> String? {
        guard !isInternal, case .deny(let reason)? = authorizer.policy?(action) else { return nil }
        return reason
    }

    /// Runs statements of the library's own, to which neither policy nor observer apply.
    package func internally<R, E: Error>(_ body: () throws(E) -> R) throws(E) -> R {
        let outer = isInternal
        isInternal = true
        authorizer.isEnforcing = false
        defer {
            isInternal = outer
            authorizer.isEnforcing = !outer
        }
        return try body()
    }

    /// Runs a statement of the library's own that has no result, to its end.
    package func runInternally(_ statement: Statement) throws(SQLiteError) {
        try internally { () throws(SQLiteError) in
            let code = unsafe sqlite3_step(statement.handle)
            let failure = code == SQLITE_DONE ? nil : error(code, sql: statement.sql)
            unsafe sqlite3_reset(statement.handle)
            if let failure { throw failure }
        }
    }

    /// The error that SQLite holds for the call that just failed. Must be read before the next call.
    func error(_ code: Int32, sql: String?) -> SQLiteError {
        guard let handle = unsafe handle else { return SQLiteError(.misuse, "the database is closed", sql: sql) }
        // Where the code is not the connection's own (a misuse, say), its message would be someone else's.
        let isCurrent = unsafe sqlite3_extended_errcode(handle) == code
        let message = unsafe String(cString: isCurrent ? sqlite3_errmsg(handle) : sqlite3_errstr(code))
        return SQLiteError(extendedCode: code, message: message, sql: sql)
    }

    // MARK: Transactions

    /// Begins a transaction that takes the write lock at once, or a read transaction.
    package func begin(_ statement: Statement) throws(SQLiteError) {
        try runInternally(statement)
        isTransactionExpected = true
    }

    /// Ends the transaction; on an error it is still open and must be rolled back.
    package func commit(_ statement: Statement) throws(SQLiteError) {
        try checkNotAborted()
        try runInternally(statement)
        isTransactionExpected = false
    }

    /// Takes the transaction back; harmless where an error has done so already.
    package func rollBack() {
        isTransactionExpected = false
        guard isInTransaction else { return }
        // ROLLBACK fails only where there is nothing to roll back.
        internally { _ = try? execute("ROLLBACK") }
    }

    /// Throws where the transaction has ended under its closure: what ran now would commit by itself.
    func checkNotAborted() throws(SQLiteError) {
        guard !isAborted else { throw Self.abortedError }
    }

    func willRun(_ statement: Statement) throws(SQLiteError) {
        guard !isInternal else { return }
        try checkNotAborted()
        try observer?.willRun(statement)
    }

    func didRun(_ statement: Statement) throws(SQLiteError) {
        guard !isInternal else { return }
        if maskedChanges != nil, !statement.isReadOnly { maskedChanges = nil }
        try observer?.didRun(statement)
    }

    /// A result was left before its end: its changes, if it had any, are made.
    func didStop(_ statement: Statement) {
        guard !isInternal else { return }
        if maskedChanges != nil, !statement.isReadOnly { maskedChanges = nil }
        observer?.didStop(statement)
    }

    func didFail(_ statement: Statement) {
        guard !isInternal else { return }
        observer?.didStop(statement)
    }

    /// What a statement meets after an error has ended its transaction.
    package static let abortedError = SQLiteError(
        .aborted,
        "the transaction has ended before its closure did, by an error that rolled it back or by SQL: "
            + "let the error leave the closure, then try again")
}

/// Is told of the statements that users of a connection run.
package protocol StatementObserver: AnyObject {
    /// Before the first step.
    func willRun(_ statement: Statement) throws(SQLiteError)
    /// After the last row.
    func didRun(_ statement: Statement) throws(SQLiteError)
    /// After an error, or where the result was not read to its end.
    func didStop(_ statement: Statement)
    /// Before a write through a blob.
    func willWrite(_ blob: Blob) throws(SQLiteError)
    /// Before a blob closes.
    func willClose(_ blob: Blob) throws(SQLiteError)
}
