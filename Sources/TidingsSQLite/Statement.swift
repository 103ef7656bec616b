internal import CTidingsSQLite

/// A prepared statement of one database. Like the database it exists only inside the closure that received it.
///
/// [Prepared statement object](https://www.sqlite.org/c3ref/stmt.html)
@safe
public final class Statement {
    /// Owned: finalized in `deinit`, or by ``Database/close()`` before the connection goes.
    private(set) var handle: OpaquePointer?
    /// The database outlives its statements: it finalizes them when it closes.
    unowned let database: Database
    /// The SQL, without values.
    public let sql: String
    /// True where the statement may change the schema, as the authorizer saw when it was prepared.
    package let changesSchema: Bool
    /// True where the library prepared the statement for itself, so that no policy applied.
    let isInternal: Bool
    /// True while a result is being read, so that the cache does not hand the statement out twice.
    var isInUse = false
    var lastUse: UInt64 = 0
    /// True from the first step to the reset.
    private var isRunning = false

    init(handle: OpaquePointer, database: Database, sql: String, changesSchema: Bool, isInternal: Bool) {
        unsafe self.handle = unsafe handle
        self.database = database
        self.sql = sql
        self.changesSchema = changesSchema
        self.isInternal = isInternal
    }

    deinit { finalize() }

    /// The number of columns in the result; 0 for a statement without one.
    ///
    /// Asked anew each time: SQLite prepares a statement again where the schema has changed under it.
    public var columnCount: Int { Int(unsafe sqlite3_column_count(handle)) }

    /// The names of the result's columns.
    public var columnNames: [String] {
        (0..<columnCount).map { index in
            let name = unsafe sqlite3_column_name(handle, Int32(index))
            return unsafe name.map { unsafe String(cString: $0) } ?? ""
        }
    }

    /// The number of parameters: the largest index.
    public var parameterCount: Int { Int(unsafe sqlite3_bind_parameter_count(handle)) }

    /// True where the statement writes nothing to the database file.
    public var isReadOnly: Bool { unsafe sqlite3_stmt_readonly(handle) != 0 }

    /// Binds NULL. `index` counts from 1, here and below.
    public func bindNull(at index: Int) throws(SQLiteError) {
        try check(unsafe sqlite3_bind_null(handle, Int32(index)))
    }

    /// Binds an integer.
    public func bind(_ value: Int64, at index: Int) throws(SQLiteError) {
        try check(unsafe sqlite3_bind_int64(handle, Int32(index), value))
    }

    /// Binds a real.
    public func bind(_ value: Double, at index: Int) throws(SQLiteError) {
        try check(unsafe sqlite3_bind_double(handle, Int32(index), value))
    }

    /// Binds text; SQLite copies it.
    public func bind(_ value: String, at index: Int) throws(SQLiteError) {
        var text = value
        let result = text.withUTF8 { utf8 in
            unsafe utf8.withMemoryRebound(to: CChar.self) { characters in
                unsafe sqlite3_bind_text64(
                    handle, Int32(index), characters.baseAddress ?? Self.emptyText, UInt64(characters.count),
                    tidings_sqlite_transient(), UInt8(SQLITE_UTF8))
            }
        }
        try check(result)
    }

    /// Binds text by its bytes, which need not be valid UTF-8; SQLite copies them.
    public func bind(text bytes: [UInt8], at index: Int) throws(SQLiteError) {
        let result = unsafe bytes.withUnsafeBytes { buffer in
            unsafe sqlite3_bind_text64(
                handle, Int32(index), buffer.baseAddress?.assumingMemoryBound(to: CChar.self) ?? Self.emptyText,
                UInt64(buffer.count), tidings_sqlite_transient(), UInt8(SQLITE_UTF8))
        }
        try check(result)
    }

    /// Binds a blob; SQLite copies it.
    public func bind(blob bytes: [UInt8], at index: Int) throws(SQLiteError) {
        let result = unsafe bytes.withUnsafeBytes { buffer in
            unsafe bindCopy(buffer, at: index)
        }
        try check(result)
    }

    private func bindCopy(_ buffer: UnsafeRawBufferPointer, at index: Int) -> Int32 {
        // A nil pointer would bind NULL: an empty blob needs an address.
        guard let start = buffer.baseAddress, buffer.count > 0 else {
            return unsafe sqlite3_bind_zeroblob(handle, Int32(index), 0)
        }
        return unsafe sqlite3_bind_blob64(handle, Int32(index), start, UInt64(buffer.count), tidings_sqlite_transient())
    }

    /// Binds a blob without a copy. The bytes must stay where they are until the statement is reset and bound anew.
    @unsafe
    package func bind(borrowedBlob buffer: UnsafeRawBufferPointer, at index: Int) throws(SQLiteError) {
        guard let start = buffer.baseAddress, buffer.count > 0 else {
            try check(unsafe sqlite3_bind_zeroblob(handle, Int32(index), 0))
            return
        }
        try check(unsafe sqlite3_bind_blob64(handle, Int32(index), start, UInt64(buffer.count), nil))
    }

    /// Runs to the next row: true where there is one, false at the end. Throws what SQLite reports.
    @discardableResult
    public func step() throws(SQLiteError) -> Bool {
        if !isRunning {
            try database.willRun(self)
            isRunning = true
        }
        switch unsafe sqlite3_step(handle) {
        case SQLITE_ROW:
            return true
        case SQLITE_DONE:
            isRunning = false
            // A statement without a result is reset at once, so that an error of COMMIT is not met by a busy statement.
            if columnCount == 0 { unsafe sqlite3_reset(handle) }
            try database.didRun(self)
            return false
        case let code:
            let error = database.error(code, sql: sql)
            isRunning = false
            unsafe sqlite3_reset(handle)
            database.didFail(self)
            throw error
        }
    }

    /// Ends the result. Bound values stay.
    ///
    /// A statement that writes ends its work here too where it was not stepped to its end, and may yet fail: step to
    /// the end to be told.
    public func reset() { try? finish() }

    /// Ends the result. Throws where a statement that was left before its end has failed at what was left to do: to
    /// check foreign keys, to commit.
    func finish() throws(SQLiteError) {
        let code = unsafe sqlite3_reset(handle)
        // After the end, or an error, the code repeats what step() has returned or thrown already.
        guard isRunning else { return }
        isRunning = false
        guard code == SQLITE_OK else {
            let error = database.error(code, sql: sql)
            database.didFail(self)
            throw error
        }
        database.didStop(self)
    }

    /// Sets every parameter to NULL.
    public func clearBindings() { unsafe sqlite3_clear_bindings(handle) }

    /// Calls `body` for each row of the result.
    public func forEachRow(_ body: (Row) throws -> Void) throws {
        defer { reset() }
        while try step() { try body(Row(statement: self)) }
    }

    /// The row on which the statement stands after ``step()`` returned true.
    package var row: Row { Row(statement: self) }

    /// Virtual-machine steps since the last call, for measurements.
    ///
    /// [Prepared statement status](https://www.sqlite.org/c3ref/stmt_status.html)
    package func takeVirtualMachineSteps() -> Int {
        Int(unsafe sqlite3_stmt_status(handle, SQLITE_STMTSTATUS_VM_STEP, 1))
    }

    func finalize() {
        guard let owned = unsafe handle else { return }
        unsafe sqlite3_finalize(owned)
        unsafe handle = nil
    }

    private func check(_ code: Int32) throws(SQLiteError) {
        if code != SQLITE_OK { throw database.error(code, sql: sql) }
    }

    /// An address for text of no bytes: nil would bind NULL.
    private nonisolated(unsafe) static let emptyText: UnsafePointer<CChar> = {
        // Never freed and never written: one byte for the life of the process.
        let pointer = UnsafeMutablePointer<CChar>.allocate(capacity: 1)
        unsafe pointer.initialize(to: 0)
        return unsafe UnsafePointer(pointer)
    }()
}
