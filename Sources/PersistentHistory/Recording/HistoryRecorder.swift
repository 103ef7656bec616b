internal import FoundationEssentials
internal import Glibc
internal import TidingsSQLite

/// Records what tracked write transactions change, on the one connection of a store that writes.
///
/// Between ``begin()`` and ``commit(_:)`` the preupdate hook feeds the encoder; nothing of it runs SQL. What
/// savepoints and failing statements take back is taken back here too.
final class HistoryRecorder {
    /// Who writes the transaction that is about to be committed.
    struct Writer {
        let author: String
        let contextName: String?
        let origin: HistoryOrigin

        /// Field by field, without the copies that a comparison of optional writers makes.
        @inline(__always)
        func isSame(as other: borrowing Writer) -> Bool {
            // By bytes: strings that only mean the same to a reader are two names here.
            author.utf8.elementsEqual(other.author.utf8) && origin.description == other.origin.description
                && (contextName ?? "").utf8.elementsEqual((other.contextName ?? "").utf8)
                && (contextName == nil) == (other.contextName == nil)
        }
    }

    unowned let database: Database
    let recorded: RecordedChanges
    private let encoder: ChangeEncoder
    let clock: any HistoryClock
    private(set) var state: StoreState
    private(set) var tracking: TrackedTables
    /// The first thing that went wrong where no error could be thrown; the transaction fails with it.
    private var failure: HistoryError?
    private var isRecording = false
    private var pendingBlob: PendingBlob?
    /// True where this transaction has changed the schema, so that a rollback takes back what is known of it.
    private var hasChangedSchema = false
    private var mustReload = false
    /// The file's version as this connection knows it: another one means that somebody else has written.
    private var knownVersion: UInt32?
    /// The schema and the tracking that are known, and those that the transaction under way has read.
    private var knownMark: SchemaMark?
    private var readMark: SchemaMark?

    private let beginStatement: Statement
    private let commitStatement: Statement
    /// Joins the transaction, so that its savepoints are announced.
    private let enlistStatement: Statement
    private let insertStatement: Statement
    private let chunkStatement: Statement
    private var boundWriter: Writer?
    private let summaryBuffer = RecordBuffer(spillThreshold: .max)

    static let transactionTable = "history_capture"

    /// Attaches a recorder to a connection whose file is a store. The hook must have been installed with `hook`.
    init(
        _ database: Database, hook: CaptureHook, clock: any HistoryClock, spillThreshold: Int
    ) throws {
        self.database = database
        self.clock = clock
        recorded = RecordedChanges(spillThreshold: spillThreshold)
        encoder = ChangeEncoder(buffer: recorded.buffer)
        state = try StoreState.read(database)
        tracking = TrackedTables()
        beginStatement = try database.prepare("BEGIN IMMEDIATE")
        commitStatement = try database.prepare("COMMIT")
        try database.installTransactionTable(Self.transactionTable, observer: hook)
        enlistStatement = try database.prepare("INSERT INTO \(Self.transactionTable) VALUES (0)")
        insertStatement = try database.prepare(
            """
            INSERT INTO history_transaction(
                nonce, time, author, context, origin, entities, change_count, chunk_count, changes)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
            """)
        chunkStatement = try database.prepare("INSERT INTO history_chunk(chunk, changes) VALUES (?, ?)")
        hook.recorder = self
        database.observer = hook
    }

    // MARK: The transaction

    /// Takes the write lock and starts recording.
    func begin() throws {
        // Once: each use of the reference is counted.
        let database = database
        try database.begin(beginStatement)
        do {
            failure = nil
            pendingBlob = nil
            hasChangedSchema = false
            readMark = nil
            let counts = database.keepCounts()
            defer { database.restore(counts) }
            if database.dataVersion != knownVersion { try database.internally { try refresh() } }
            try database.runInternally(enlistStatement)
            isRecording = true
        } catch {
            rollBack()
            throw error
        }
    }

    /// Reads what another connection may have changed: the store's row, the tracked tables and their columns.
    private func refresh() throws {
        try HistorySchema.checkFormat(database)
        state = try StoreState.read(database)
        // Most of what others commit is rows: then the tables are known.
        guard try SchemaMark.read(database) != knownMark else { return }
        try HistorySchema.checkTransactionTable(database)
        try tracking.reload(database, isOwnChange: false, record: record)
        readMark = try SchemaMark.read(database)
    }

    /// Reads the tables anew, inside the transaction that changed them or their tracking.
    func reloadTracking() throws {
        hasChangedSchema = true
        try tracking.reload(database, isOwnChange: true, record: record)
    }

    /// Reads the store's row after a transaction that changed it.
    func refreshState() throws { state = try database.internally { try StoreState.read(database) } }

    /// Writes the transaction's history and commits. nil where nothing was recorded: then there is no token.
    ///
    /// Where it throws the transaction is still open: roll it back.
    func commit(_ writer: Writer) throws -> HistoryToken? {
        let database = database
        // Where an error has ended the transaction, anything written now would commit by itself.
        guard !database.isAborted else { throw Database.abortedError }
        try settleBlob()
        try reloadAfterRollback()
        isRecording = false
        if tracking.hasMissing { try database.internally { try settleMissing() } }
        if let failure { throw failure }
        let token = recorded.isEmpty ? nil : try writeHistory(writer)
        try database.commit(commitStatement)
        recorded.removeAll()
        knownVersion = database.dataVersion
        if let readMark { knownMark = readMark }
        return token
    }

    /// Takes the transaction back, and what is known of the schema with it.
    func rollBack() {
        isRecording = false
        database.rollBack()
        recorded.removeAll()
        pendingBlob = nil
        if hasChangedSchema { forgetSchema() }
    }

    /// What is known of the schema was taken back with the transaction: the next one looks anew.
    func forgetSchema() {
        knownVersion = nil
        knownMark = nil
        mustReload = false
        tracking.forget()
    }

    /// Runs `body`, which changes the history's own tables, in a write transaction that is none of the history.
    ///
    /// - Returns: what it returned, and the token of what others had done to tracked tables, where there is such.
    func coordinate<R>(
        _ database: Database, _ body: (Database, StoreState) throws -> R
    ) throws -> (value: R, found: HistoryToken?) {
        try begin()
        do {
            let result = try database.internally {
                try database.hidingChanges {
                    try database.withoutPreupdateHook { try body(database, try StoreState.read(database)) }
                }
            }
            try refreshState()
            // What others did to the schema is found at the beginning, and recorded whoever comes by.
            let writer = Writer(author: HistoryStore.operatorName, contextName: nil, origin: HistoryOrigin())
            return (result, try commit(writer))
        } catch {
            rollBack()
            forgetSchema()
            throw error
        }
    }

    private func settleMissing() throws {
        hasChangedSchema = true
        try database.hidingChanges {
            try tracking.settleMissing(database, record: record)
        }
    }

    private func writeHistory(_ writer: Writer) throws -> HistoryToken {
        let database = database
        let counts = database.keepCounts()
        defer { database.restore(counts) }
        let nonce = database.randomInt64()
        try bind(writer)
        summaryBuffer.removeAll()
        recorded.summary.encode(into: summaryBuffer)
        try insertStatement.bind(nonce, at: 1)
        try insertStatement.bind(clock.microseconds, at: 2)
        try insertStatement.bind(borrowedBlob: summaryBuffer.bytes, at: 6)
        try insertStatement.bind(Int64(recorded.count), at: 7)
        var chunk: Int64 = 0
        var sequence: Int64 = 0
        let pieces = Int64(recorded.buffer.spilledPieces.count)
        try insertStatement.bind(recorded.buffer.bytes.isEmpty || pieces == 0 ? max(pieces - 1, 0) : pieces, at: 8)
        try recorded.buffer.forEachPiece { piece in
            if chunk == 0 {
                try insertStatement.bind(borrowedBlob: piece, at: 9)
                try database.runInternally(insertStatement)
                sequence = try settledSequence(database)
            } else {
                guard chunk < 1 << RecordFormat.chunkBits else {
                    throw HistoryError(
                        .database, "the transaction's history has too many parts: raise the spill threshold")
                }
                try chunkStatement.bind(RecordFormat.chunkKey(sequence: sequence, chunk: chunk), at: 1)
                try chunkStatement.bind(borrowedBlob: piece, at: 2)
                try database.runInternally(chunkStatement)
            }
            chunk += 1
        }
        return state.token(sequence, UInt64(bitPattern: nonce))
    }

    /// The bindings of a writer stay in the statement from one transaction to the next.
    private func bind(_ writer: Writer) throws {
        if let boundWriter, boundWriter.isSame(as: writer) { return }
        boundWriter = nil
        try insertStatement.bind(writer.author, at: 3)
        try writer.contextName.bind(to: insertStatement, at: 4)
        try insertStatement.bind(writer.origin.description, at: 5)
        boundWriter = writer
    }

    /// The sequence that the row just inserted got: SQLite's next rowid, unless everything before was purged.
    private func settledSequence(_ database: Database) throws -> Int64 {
        let assigned = database.lastInsertedRowID
        guard assigned <= state.purgedSequence else { return assigned }
        let sequence = state.purgedSequence + 1
        let sql = "UPDATE history_transaction SET sequence = ? WHERE sequence = ?"
        try database.internally { try database.execute(sql, sequence, assigned) }
        return sequence
    }

    // MARK: What the hook and the statements tell

    /// A row of some table is about to change.
    @inline(__always)
    func willChange(_ change: borrowing PreupdateChange) {
        guard isRecording, failure == nil, !database.isInternal, let plan = tracking.plan(for: change) else { return }
        if let blobColumn = change.blobColumn {
            beginBlob(change, plan, blobColumn)
            return
        }
        switch change.operation {
        case .insert:
            encoder.insert(change, plan)
            recorded.add(.insert, entityID: plan.layout.entityID)
        case .delete:
            encoder.delete(change, plan)
            recorded.add(.delete, entityID: plan.layout.entityID)
        case .update:
            guard encoder.update(change, plan) else { return }
            recorded.add(.update, entityID: plan.layout.entityID)
        }
        spillIfLarge()
    }

    @inline(__always)
    private func spillIfLarge() {
        do throws(HistoryError) {
            try recorded.buffer.spillIfLarge()
        } catch {
            if failure == nil { failure = error }
        }
    }

    /// Encodes a record about a table itself, at this place among the changes.
    func record(_ kind: RecordFormat.Kind, _ layout: HistoryLayout, _ detail: String = "") {
        encoder.schema(kind, layout, detail: detail)
        recorded.add(.schema, entityID: layout.entityID)
    }

    func willRun(_ statement: Statement) throws(SQLiteError) {
        guard isRecording else { return }
        try settleBlob()
        if let failure { throw SQLiteError(.aborted, failure.message, sql: statement.sql) }
        try reloadAfterRollback()
    }

    func didRun(_ statement: Statement) throws(SQLiteError) {
        guard isRecording else { return }
        if statement.changesSchema { try didChangeSchema(statement.sql) }
    }

    /// Reads the tables anew after DDL: what follows is recorded under the new layout.
    private func didChangeSchema(_ sql: String?) throws(SQLiteError) {
        hasChangedSchema = true
        do {
            try database.internally {
                try HistorySchema.checkNames(database)
                try database.hidingChanges {
                    try tracking.reload(database, isOwnChange: true, record: record)
                }
            }
        } catch {
            // The closure may swallow what is thrown here; the transaction must fail all the same.
            let reason = error as? HistoryError ?? HistoryError(.database, "\(error)")
            failure = failure ?? reason
            throw SQLiteError(.aborted, reason.message, sql: sql)
        }
    }

    /// A ROLLBACK TO may have taken back DDL: what is known of the tables is read anew before the next statement.
    private func reloadAfterRollback() throws(SQLiteError) {
        guard mustReload else { return }
        mustReload = false
        tracking.forget()
        try didChangeSchema(nil)
    }

    func didRollBackToSavepoint(_ number: Int) {
        recorded.rollBack(to: number)
        pendingBlob = nil
        if hasChangedSchema { mustReload = true }
    }

    // MARK: Blobs

    /// A write through a blob: SQLite tells the old value only, so the new one is read when the writing pauses.
    private struct PendingBlob {
        let blob: Blob
        let plan: CapturePlan
        let column: Int
        /// The record up to the new value.
        let start: RecordBuffer
        let old: SQLiteValue
    }

    private func beginBlob(_ change: borrowing PreupdateChange, _ plan: CapturePlan, _ number: Int) {
        guard let blob = database.writingBlob, pendingBlob?.blob !== blob,
            let column = plan.layout.columnNames.firstIndex(where: { TableInspector.isSameName($0, blob.column) })
        else { return }
        let start = RecordBuffer(spillThreshold: .max)
        ChangeEncoder(buffer: start, startsTransaction: false).beginBlobUpdate(change, plan, column: column)
        let old = plan.oldRow[column]
        let bytes = UnsafeRawBufferPointer(start: old.bytes, count: old.count)
        pendingBlob = PendingBlob(
            blob: blob, plan: plan, column: column, start: start,
            old: old.storageClass == 3 ? SQLiteValue(textBytes: bytes) : .blob(Array(bytes)))
    }

    /// Another blob is about to be written: the one before is complete.
    func willWrite(_ blob: Blob) throws(SQLiteError) {
        if pendingBlob?.blob !== blob { try settleBlob() }
        if isRecording { try reloadAfterRollback() }
    }

    /// What the column holds now. By a query rather than through the blob, whose bytes are in the file's own encoding.
    private func currentValue(of pending: PendingBlob) throws(SQLiteError) -> SQLiteValue {
        func quoted(_ name: String) -> String {
            "\"" + name.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\""
        }
        let column = quoted(pending.plan.layout.columnNames[pending.column])
        let sql = "SELECT \(column) FROM main.\(quoted(pending.plan.layout.entity)) WHERE rowid = ?"
        do throws(SQLiteError) {
            return try database.internally { () throws(SQLiteError) in
                try database.first(sql, pending.blob.rowID, as: SQLiteValue.self) ?? .null
            }
        } catch {
            failure = failure ?? HistoryError(error, while: "reading a written blob", path: database.path)
            throw error
        }
    }

    /// Appends a text or blob to the records.
    private func append(_ value: SQLiteValue) {
        let (bytes, storageClass): ([UInt8], Int32) =
            switch value {
            case .blob(let bytes): (bytes, 4)
            case .malformedText(let bytes): (bytes, 3)
            case .text(let text): (Array(text.utf8), 3)
            case .null, .integer, .real: ([], 5)
            }
        bytes.withUnsafeBytes { buffer in
            recorded.buffer.append(
                BorrowedValue(storageClass: storageClass, bytes: buffer.baseAddress, count: buffer.count))
        }
    }

    /// Completes the record of a blob that was written, before anything else happens.
    func settleBlob() throws(SQLiteError) {
        guard let pending = pendingBlob else { return }
        pendingBlob = nil
        let new = try currentValue(of: pending)
        guard new != pending.old else { return }
        if recorded.isEmpty { recorded.buffer.append(byte: RecordFormat.version) }
        recorded.buffer.append(bytes: pending.start.bytes)
        if pending.plan.columns[pending.column].isRedacted {
            recorded.buffer.append(byte: UInt8(RecordFormat.redactedSerialType))
        } else {
            append(new)
        }
        recorded.add(.update, entityID: pending.plan.layout.entityID)
        spillIfLarge()
    }
}

/// What the connection's callbacks refer to from its opening on; the recorder joins once the file is known as a store.
final class CaptureHook: PreupdateObserver, TransactionObserver, StatementObserver {
    var recorder: HistoryRecorder?

    func willChange(_ change: borrowing PreupdateChange) { recorder?.willChange(change) }

    func didSetSavepoint(_ number: Int) { recorder?.recorded.setMark(number) }
    func didRelease(_ number: Int) { recorder?.recorded.releaseMarks(from: number) }
    func didRollBack(to number: Int) { recorder?.didRollBackToSavepoint(number) }
    func didCommit() {}
    func didRollBack() { recorder?.recorded.removeAll() }

    func willRun(_ statement: Statement) throws(SQLiteError) { try recorder?.willRun(statement) }
    func didRun(_ statement: Statement) throws(SQLiteError) { try recorder?.didRun(statement) }
    func didStop(_ statement: Statement) {}
    func willWrite(_ blob: Blob) throws(SQLiteError) { try recorder?.willWrite(blob) }
    func willClose(_ blob: Blob) throws(SQLiteError) { try recorder?.settleBlob() }
}
