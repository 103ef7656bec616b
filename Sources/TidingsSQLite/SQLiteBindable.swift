/// A Swift value that can be bound to a parameter of a statement.
public protocol SQLiteBindable {
    /// Binds the value to the parameter at `index`, which counts from 1.
    func bind(to statement: Statement, at index: Int) throws(SQLiteError)
}

/// A Swift value that can be read from a column of a row.
public protocol SQLiteReadable {
    /// Reads the column at `index`, which counts from 0. Throws `mismatch` where the storage class does not fit.
    static func read(from row: Row, at index: Int) throws(SQLiteError) -> Self
}

extension Int64: SQLiteBindable, SQLiteReadable {
    /// Binds an integer.
    public func bind(to statement: Statement, at index: Int) throws(SQLiteError) { try statement.bind(self, at: index) }
    /// Reads an integer.
    public static func read(from row: Row, at index: Int) throws(SQLiteError) -> Int64 {
        guard row.storageClass(at: index) == .integer else { throw row.mismatch(at: index, expected: "an integer") }
        return row.int64(at: index)
    }
}

extension Int: SQLiteBindable, SQLiteReadable {
    /// Binds an integer.
    public func bind(to statement: Statement, at index: Int) throws(SQLiteError) {
        try statement.bind(Int64(self), at: index)
    }
    /// Reads an integer.
    public static func read(from row: Row, at index: Int) throws(SQLiteError) -> Int {
        Int(try Int64.read(from: row, at: index))
    }
}

extension Bool: SQLiteBindable, SQLiteReadable {
    /// Binds 0 or 1.
    public func bind(to statement: Statement, at index: Int) throws(SQLiteError) {
        try statement.bind(self ? 1 : 0 as Int64, at: index)
    }
    /// Reads an integer: 0 is false, everything else true.
    public static func read(from row: Row, at index: Int) throws(SQLiteError) -> Bool {
        try Int64.read(from: row, at: index) != 0
    }
}

extension Double: SQLiteBindable, SQLiteReadable {
    /// Binds a real; SQLite stores NaN as NULL.
    public func bind(to statement: Statement, at index: Int) throws(SQLiteError) { try statement.bind(self, at: index) }
    /// Reads a real, or an integer as a real.
    public static func read(from row: Row, at index: Int) throws(SQLiteError) -> Double {
        switch row.storageClass(at: index) {
        case .real, .integer: return row.double(at: index)
        default: throw row.mismatch(at: index, expected: "a number")
        }
    }
}

extension String: SQLiteBindable, SQLiteReadable {
    /// Binds text.
    public func bind(to statement: Statement, at index: Int) throws(SQLiteError) { try statement.bind(self, at: index) }
    /// Reads text. Throws `mismatch` for text that is not valid UTF-8: read it as ``SQLiteValue``.
    public static func read(from row: Row, at index: Int) throws(SQLiteError) -> String {
        guard case .text(let text) = row.value(at: index) else {
            throw row.mismatch(at: index, expected: "text in valid UTF-8")
        }
        return text
    }
}

extension Array: SQLiteBindable, SQLiteReadable where Element == UInt8 {
    /// Binds a blob.
    public func bind(to statement: Statement, at index: Int) throws(SQLiteError) {
        try statement.bind(blob: self, at: index)
    }
    /// Reads a blob.
    public static func read(from row: Row, at index: Int) throws(SQLiteError) -> [UInt8] {
        guard case .blob(let bytes) = row.value(at: index) else { throw row.mismatch(at: index, expected: "a blob") }
        return bytes
    }
}

extension SQLiteValue: SQLiteBindable, SQLiteReadable {
    /// Binds the value in its own storage class.
    public func bind(to statement: Statement, at index: Int) throws(SQLiteError) {
        switch self {
        case .null: try statement.bindNull(at: index)
        case .integer(let value): try statement.bind(value, at: index)
        case .real(let value): try statement.bind(value, at: index)
        case .text(let value): try statement.bind(value, at: index)
        case .malformedText(let bytes): try statement.bind(text: bytes, at: index)
        case .blob(let bytes): try statement.bind(blob: bytes, at: index)
        }
    }
    /// Reads any value.
    public static func read(from row: Row, at index: Int) throws(SQLiteError) -> SQLiteValue { row.value(at: index) }
}

extension Optional: SQLiteBindable where Wrapped: SQLiteBindable {
    /// Binds the value, or NULL for nil.
    public func bind(to statement: Statement, at index: Int) throws(SQLiteError) {
        if let value = self {
            try value.bind(to: statement, at: index)
        } else {
            try statement.bindNull(at: index)
        }
    }
}

extension Optional: SQLiteReadable where Wrapped: SQLiteReadable {
    /// Reads the value, or nil for NULL.
    public static func read(from row: Row, at index: Int) throws(SQLiteError) -> Wrapped? {
        row.storageClass(at: index) == .null ? nil : try Wrapped.read(from: row, at: index)
    }
}
