internal import CTidingsSQLite

/// The storage class of a value.
public enum StorageClass: Int32, Sendable {
    /// A 64-bit integer.
    case integer = 1
    /// A 64-bit floating point number.
    case real = 2
    /// Text.
    case text = 3
    /// Bytes.
    case blob = 4
    /// NULL.
    case null = 5
}

/// The row on which a statement stands. Valid only inside the closure that received it, until the next step.
///
/// [Result values from a query](https://www.sqlite.org/c3ref/column_blob.html)
public struct Row {
    let statement: Statement

    /// The number of columns.
    public var count: Int { statement.columnCount }

    /// The storage class of the value at `index`, which counts from 0.
    public func storageClass(at index: Int) -> StorageClass {
        StorageClass(rawValue: unsafe sqlite3_column_type(statement.handle, Int32(index))) ?? .null
    }

    /// The value as an integer, converted by SQLite's rules where it is none; 0 for NULL.
    public func int64(at index: Int) -> Int64 { unsafe sqlite3_column_int64(statement.handle, Int32(index)) }

    /// The value as a real, converted by SQLite's rules where it is none; 0 for NULL.
    public func double(at index: Int) -> Double { unsafe sqlite3_column_double(statement.handle, Int32(index)) }

    /// Lends the bytes of a text or blob; empty for NULL. The bytes must not leave the closure.
    @unsafe
    public func withBytes<R, E: Error>(at index: Int, _ body: (UnsafeRawBufferPointer) throws(E) -> R) throws(E) -> R {
        // sqlite3_column_text first: it settles the encoding, and only then is sqlite3_column_bytes right.
        let isText = unsafe sqlite3_column_type(statement.handle, Int32(index)) == SQLITE_TEXT
        let start: UnsafeRawPointer?
        if isText {
            unsafe start = UnsafeRawPointer(sqlite3_column_text(statement.handle, Int32(index)))
        } else {
            unsafe start = sqlite3_column_blob(statement.handle, Int32(index))
        }
        let count = unsafe start == nil ? 0 : Int(sqlite3_column_bytes(statement.handle, Int32(index)))
        return try unsafe body(UnsafeRawBufferPointer(start: start, count: count))
    }

    /// The bytes of a text or blob, empty for NULL, without the cost of a closure: valid until the next step, and as
    /// long as the value is not read otherwise.
    @unsafe
    package func borrowedBytes(at index: Int) -> UnsafeRawBufferPointer {
        // The length first: it settles the encoding. Then the bytes as they are.
        let count = Int(unsafe sqlite3_column_bytes(statement.handle, Int32(index)))
        let start = unsafe sqlite3_column_blob(statement.handle, Int32(index))
        return unsafe UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : count)
    }

    /// The value, copied.
    public func value(at index: Int) -> SQLiteValue {
        switch storageClass(at: index) {
        case .null: .null
        case .integer: .integer(int64(at: index))
        case .real: .real(double(at: index))
        case .text: unsafe withBytes(at: index) { unsafe SQLiteValue(textBytes: $0) }
        case .blob: .blob(unsafe withBytes(at: index) { unsafe Array($0) })
        }
    }

    /// Every value of the row, copied.
    public var values: [SQLiteValue] { (0..<count).map(value(at:)) }

    /// The value at `index` as a Swift type. Throws `mismatch` where it does not fit, `range` past the last column.
    public func get<Value: SQLiteReadable>(_ index: Int, as type: Value.Type = Value.self) throws(SQLiteError) -> Value
    {
        guard (0..<count).contains(index) else {
            throw SQLiteError(.range, "no column \(index): the row has \(count)", sql: statement.sql)
        }
        return try Value.read(from: self, at: index)
    }

    /// The value of a named column as a Swift type.
    public func get<Value: SQLiteReadable>(_ name: String, as type: Value.Type = Value.self) throws(SQLiteError)
        -> Value
    {
        guard let index = statement.columnNames.firstIndex(of: name) else {
            throw SQLiteError(.range, "no column \(name) in the result", sql: statement.sql)
        }
        return try Value.read(from: self, at: index)
    }

    func mismatch(at index: Int, expected: String) -> SQLiteError {
        let name = index < statement.columnNames.count ? statement.columnNames[index] : "\(index)"
        let found = "\(storageClass(at: index))"
        return SQLiteError(.mismatch, "column \(name) holds \(found), not \(expected)", sql: statement.sql)
    }
}
