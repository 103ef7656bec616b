internal import FoundationEssentials
internal import TidingsSQLite

/// The reading side of a store: a read-only connection on a thread of its own.
actor HistoryReader {
    private let executor: ThreadExecutor
    private let path: String
    private var database: Database?
    /// How it was opened; nil before that, and once it is closed.
    private var busyTimeout: Duration?
    /// True where the store is opened for writing too: then this user is one of those whose files stand beside it.
    private let isBesideWriter: Bool
    /// Which store it reads: a file that is put in the place of the one that is open must be of the same.
    private var storeID: UUID?
    /// How often the file was opened: numbers of one connection mean nothing to another.
    private var openings: Int64 = 0
    private var table = LayoutTable([:])
    /// Which layouts the table holds; nil where it was not read yet.
    private var tableMark: LayoutMark?
    /// The size of the page before, from which the next one hardly differs.
    private var latestPageBytes = 0

    /// The most rows that one read transaction looks at, so that a checkpoint never waits long for it.
    private static let scanLimit: Int64 = 20_000
    /// The most encoded bytes of a page; one transaction may be larger.
    private static let pageBytes = 1 << 20

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    /// Starts the thread.
    ///
    /// - Parameter storeID: what a writer has open already: the reader must not meet another file in its place.
    init(path: String, besideWriterOf storeID: UUID?) throws(HistoryError) {
        self.path = path
        self.storeID = storeID
        isBesideWriter = storeID != nil
        executor = try HistoryError.threadStarted("history-read", for: path)
    }

    /// Opens the connection. Never creates the file, nor the two beside it.
    func open(busyTimeout: Duration) throws {
        let missing = Database.companions(of: path).filter { !Database.exists($0) }
        guard Database.exists(path) == false || missing.isEmpty else {
            throw HistoryError(
                .storeUnavailable,
                "\(path): \(missing.joined(separator: " and ")) missing, and a reader never creates them: "
                    + "wait for a writer to open the store")
        }
        do {
            let opened = try Database(path: path, options: OpenOptions(access: .readOnly, busyTimeout: busyTimeout))
            storeID = try HistorySchema.storeID(opened, expected: storeID)
            self.busyTimeout = busyTimeout
            openings += 1
            tableMark = nil
            database = opened
        } catch let error as SQLiteError {
            throw HistoryError(error, while: "opening for reading", path: path)
        }
    }

    func close() {
        database?.close()
        database = nil
        busyTimeout = nil
    }

    /// The connection; a new one where somebody has put another file in the place of the one that was open, such as a
    /// backup: whoever went on with that would see nothing of it, for ever.
    private func current() throws -> Database {
        guard let busyTimeout else { throw HistoryError(.closed, "\(path): the store is closed: open it again") }
        if let database, !database.hasMoved { return database }
        database?.close()
        database = nil
        let writing = isBesideWriter ? try makeReadable(busyTimeout) : nil
        defer { writing?.close() }
        try open(busyTimeout: busyTimeout)
        // Replaced once more meanwhile, it is met by the next call.
        return try opened()
    }

    private func opened() throws(HistoryError) -> Database {
        guard let database else { throw HistoryError(.closed, "\(path): the store is closed: open it again") }
        return database
    }

    /// A file that was only just put there has none beside it, and a reader never creates them: a user who may write does,
    /// once the file is known to be the store. The connection is to stay open until the reader's is.
    private func makeReadable(_ busyTimeout: Duration) throws -> Database {
        do {
            let database = try Database(
                path: path,
                options: OpenOptions(access: .readWrite, busyTimeout: busyTimeout, usesWriteAheadLog: false))
            _ = try HistorySchema.storeID(database, expected: storeID)
            try database.enterWriteAheadLog()
            // The first who reads makes the files.
            _ = try StoreState.read(database)
            return database
        } catch let error as SQLiteError {
            throw HistoryError(error, while: "opening for reading", path: path)
        }
    }

    /// Opens the file anew where another was put in its place, unless it is closed.
    func look() throws { if busyTimeout != nil { _ = try current() } }

    /// Runs `body` in one read transaction: all that it reads is of one moment. SQLite's errors get the store's words.
    func read<R: Sendable>(_ body: (Database, StoreState) throws -> R) throws -> R {
        do {
            return try transaction(body)
        } catch let error as SQLiteError {
            throw HistoryError(error, while: "reading history", path: path)
        }
    }

    /// A number that differs from an earlier one where somebody else has committed meanwhile.
    ///
    /// [PRAGMA data_version](https://www.sqlite.org/pragma.html#pragma_data_version)
    func dataVersion() throws -> Int64 {
        let database = try current()
        do throws(SQLiteError) {
            return try (database.first("PRAGMA data_version", as: Int64.self) ?? 0) + openings << 40
        } catch {
            throw HistoryError(error, while: "looking for commits", path: path)
        }
    }

    /// Runs a user's closure in one read transaction. What it throws stays as it is.
    func run<R: Sendable>(_ body: @Sendable (Database) throws -> R) throws -> R {
        try transaction { database, _ in try body(database) }
    }

    private func transaction<R: Sendable>(_ body: (Database, StoreState) throws -> R) throws -> R {
        let database = try current()
        return try database.transaction(.deferred) {
            try body(database, try StoreState.read(database))
        }
    }

    // MARK: Pages

    /// Reads the next page. `cursor` is nil for the first one.
    func page(_ request: HistoryRequest, _ content: PageContent, after cursor: PageCursor?) throws -> HistoryPage {
        try read { database, state in
            let cursor = try cursor?.resumed(state, database) ?? PageCursor.first(of: request, state, database)
            guard !cursor.isAtEnd else { return HistoryPage(transactions: [], cursor: cursor) }
            var builder = try PageBuilder(
                state: state, layouts: layouts(database), request: request, content: content,
                expectedBytes: latestPageBytes)
            return try fill(&builder, cursor, state, database)
        }
    }

    private func fill(
        _ builder: inout PageBuilder, _ cursor: PageCursor, _ state: StoreState, _ database: Database
    ) throws -> HistoryPage {
        var next = cursor
        let window = cursor.window(Self.scanLimit)
        let limit = min(cursor.remaining ?? .max, builder.request.pageSize)
        let query = try PageQuery(builder.request, window, content: builder.content)
        var isFull = limit == 0
        if !isFull {
            try database.withStatement(query.sql) { statement in
                try query.bind(to: statement)
                let row = statement.row
                while try statement.step() {
                    let sequence = row.int64(at: 0)
                    if query.meetsEveryTransaction { try next.expect(sequence, path) }
                    let nonce = UInt64(bitPattern: row.int64(at: 1))
                    try add(row, sequence, nonce, to: &builder, database)
                    next.advance(past: sequence, nonce)
                    isFull = builder.count >= limit || builder.byteCount >= Self.pageBytes
                    if isFull { break }
                }
            }
        }
        if !isFull { try next.finish(window, state, database) }
        next.deliver(builder.count)
        latestPageBytes = min(builder.byteCount, Self.pageBytes)
        return HistoryPage(transactions: builder.finish(source: self), cursor: next)
    }

    private func add(
        _ row: Row, _ sequence: Int64, _ nonce: UInt64, to builder: inout PageBuilder, _ database: Database
    ) throws {
        let summary = try builder.readSummary(row)
        if let filter = builder.filter {
            guard filter.mayAccept(builder.summary(summary)),
                try filter.isDecidedBySummary || holdsMatch(row, sequence, builder, database)
            else {
                builder.forget(summary)
                return
            }
        }
        // The version at least is always there.
        guard builder.append(row, sequence: sequence, nonce: nonce, summary: summary) else {
            throw HistoryError(
                .damagedHistory, "\(path): the changes of transaction \(sequence) are gone: restore a backup")
        }
    }

    /// Whether one of the transaction's changes passes the filter, in whichever part it is.
    private func holdsMatch(
        _ row: Row, _ sequence: Int64, _ builder: PageBuilder, _ database: Database
    ) throws -> Bool {
        func scan(_ bytes: [UInt8], from start: Int) throws -> Bool {
            let context = ChangeContext(
                bytes: bytes, storeID: builder.state.storeID, layouts: table, filter: builder.filter, source: nil)
            let changes = HistoryChanges(
                context: context, range: start..<bytes.count, chunkCount: 0, sequence: sequence, nonce: 0)
            var iterator = changes.makeAsyncIterator()
            if start > 0 { iterator.skipVersion() }
            return try iterator.nextInPart() != nil
        }
        if try scan(row.withBytes(at: 9) { Array($0) }, from: 0) { return true }
        for chunk in 0..<max(0, row.int64(at: 8)) {
            // A byte in front, so that a chunk (which has no version) starts past zero.
            let bytes = try chunkBytes(chunk + 1, sequence, database)
            if try scan([RecordFormat.version] + bytes, from: 1) { return true }
        }
        return false
    }

    /// Reads one chunk of a large transaction, proving that the transaction is still there and still the same.
    func chunk(
        _ number: Int64, sequence: Int64, nonce: UInt64, of context: ChangeContext
    ) throws -> ChangeContext {
        let bytes = try read { database, state in
            try state.check(state.token(sequence, nonce), database)
            guard sequence > state.purgedSequence else {
                throw HistoryError(
                    .tokenExpired, "transaction \(sequence) was purged while its changes were being read: resync")
            }
            return try chunkBytes(number, sequence, database)
        }
        return ChangeContext(
            bytes: bytes, storeID: context.storeID, layouts: context.layouts, filter: context.filter, source: self)
    }

    private func chunkBytes(_ number: Int64, _ sequence: Int64, _ database: Database) throws -> [UInt8] {
        let key = RecordFormat.chunkKey(sequence: sequence, chunk: number)
        let sql = "SELECT changes FROM history_chunk WHERE chunk = ?"
        guard let bytes = try database.first(sql, key, as: [UInt8].self) else {
            throw HistoryError(.damagedHistory, "transaction \(sequence): chunk \(number) is missing")
        }
        return bytes
    }

    /// The layouts that are stored now, read anew only where they may be others.
    private func layouts(_ database: Database) throws -> LayoutTable {
        let mark = try LayoutMark.read(database)
        if mark != tableMark {
            table = LayoutTable(try LayoutStore.readAll(database))
            tableMark = mark
        }
        return table
    }
}

/// What a page holds of each transaction.
enum PageContent: Sendable {
    case transactions
    case transactionsWithChanges
}

/// One page of history: what one short read transaction returned.
struct HistoryPage: Sendable {
    let transactions: [HistoryTransaction]
    let cursor: PageCursor
}
