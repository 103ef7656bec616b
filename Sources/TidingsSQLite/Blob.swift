internal import CTidingsSQLite

/// A blob or text of one row, read and written in pieces without loading the whole value.
///
/// [Incremental I/O](https://www.sqlite.org/c3ref/blob_open.html)
@safe
public final class Blob {
    /// Owned: closed by ``close()`` or in `deinit`.
    private var handle: OpaquePointer?
    private let database: Database
    /// The table.
    public let table: String
    /// The column.
    public let column: String
    /// The rowid of the row.
    public let rowID: Int64
    /// The length in bytes; it cannot be changed through a blob.
    public let count: Int

    init(database: Database, table: String, column: String, rowID: Int64, isWritable: Bool) throws(SQLiteError) {
        self.database = database
        self.table = table
        self.column = column
        self.rowID = rowID
        var opened: OpaquePointer?
        let code = unsafe sqlite3_blob_open(
            database.handle, "main", table, column, rowID, isWritable ? 1 : 0, &opened)
        guard code == SQLITE_OK else {
            let error = database.error(code, sql: nil)
            throw SQLiteError(
                extendedCode: error.extendedCode, message: "cannot open \(table).\(column) as a blob: \(error.message)")
        }
        unsafe handle = opened
        count = Int(unsafe sqlite3_blob_bytes(opened))
    }

    deinit { unsafe sqlite3_blob_close(handle) }

    /// Closes the blob. Outside a transaction this commits what was written, and throws where that fails.
    func close() throws(SQLiteError) {
        let code = unsafe sqlite3_blob_close(handle)
        unsafe handle = nil
        guard code == SQLITE_OK else { throw database.error(code, sql: nil) }
    }

    /// Reads `length` bytes from `offset`. Throws `range` past the end, `aborted` where the row has changed since.
    public func read(_ length: Int, at offset: Int = 0) throws(SQLiteError) -> [UInt8] {
        try checkRange(length, offset)
        var bytes = [UInt8](repeating: 0, count: length)
        let code = unsafe bytes.withUnsafeMutableBytes { buffer in
            unsafe sqlite3_blob_read(handle, buffer.baseAddress, Int32(length), Int32(offset))
        }
        guard code == SQLITE_OK else { throw failure(code) }
        return bytes
    }

    /// Writes bytes at `offset`, inside the present length.
    public func write(_ bytes: [UInt8], at offset: Int = 0) throws(SQLiteError) {
        try checkRange(bytes.count, offset)
        try database.observer?.willWrite(self)
        database.writingBlob = self
        defer { database.writingBlob = nil }
        let code = unsafe bytes.withUnsafeBytes { buffer in
            unsafe sqlite3_blob_write(handle, buffer.baseAddress, Int32(buffer.count), Int32(offset))
        }
        guard code == SQLITE_OK else { throw failure(code) }
    }

    private func checkRange(_ length: Int, _ offset: Int) throws(SQLiteError) {
        guard length >= 0, offset >= 0, offset <= count, length <= count - offset else {
            throw SQLiteError(
                .range, "bytes \(offset)..<\(offset &+ length) are outside \(table).\(column), which has \(count)")
        }
    }

    private func failure(_ code: Int32) -> SQLiteError {
        guard code == SQLITE_ABORT else { return database.error(code, sql: nil) }
        return SQLiteError(
            extendedCode: code,
            message: "the row of \(table).\(column) has changed since the blob was opened: open it anew")
    }
}

extension Database {
    /// Opens a blob or text of one row of a rowid table and lends it to `body`.
    ///
    /// - Parameters:
    ///   - rowID: the row; for an INTEGER PRIMARY KEY that is the key.
    ///   - isWritable: whether ``Blob/write(_:at:)`` is allowed.
    public func withBlob<R>(
        table: String, column: String, rowID: Int64, isWritable: Bool = false, _ body: (Blob) throws -> R
    ) throws -> R {
        try checkNotAborted()
        if isWritable { try checkBlobPolicy(table: table, column: column) }
        let blob = try Blob(database: self, table: table, column: column, rowID: rowID, isWritable: isWritable)
        let result: R
        do {
            result = try body(blob)
        } catch {
            // Written pieces stay in the transaction even where the closure throws and its caller goes on.
            try observer?.willClose(blob)
            try? blob.close()
            throw error
        }
        try observer?.willClose(blob)
        try blob.close()
        return result
    }

    /// Blobs are opened without SQL, so that the authorizer never sees them: the policy is asked here.
    private func checkBlobPolicy(table: String, column: String) throws(SQLiteError) {
        guard let reason = denial(of: .init(code: SQLITE_UPDATE, first: table, second: column, database: "main")) else {
            return
        }
        throw SQLiteError(.notAuthorized, reason)
    }
}
