public import FoundationEssentials

extension UUID: SQLiteBindable, SQLiteReadable {
    /// Binds the UUID as text in its upper-case form.
    public func bind(to statement: Statement, at index: Int) throws(SQLiteError) {
        try statement.bind(uuidString, at: index)
    }
    /// Reads a UUID from its text form.
    public static func read(from row: Row, at index: Int) throws(SQLiteError) -> UUID {
        guard case .text(let text) = row.value(at: index), let uuid = UUID(uuidString: text) else {
            throw row.mismatch(at: index, expected: "a UUID as text")
        }
        return uuid
    }
}

extension Date: SQLiteBindable, SQLiteReadable {
    /// Binds the time as RFC 3339 text in UTC to the microsecond, which SQLite's date functions understand.
    public func bind(to statement: Statement, at index: Int) throws(SQLiteError) {
        try statement.bind(RFC3339.string(microseconds: microsecondsSince1970), at: index)
    }
    /// Reads RFC 3339 text.
    public static func read(from row: Row, at index: Int) throws(SQLiteError) -> Date {
        guard case .text(let text) = row.value(at: index), let time = RFC3339.microseconds(text) else {
            throw row.mismatch(at: index, expected: "a time as RFC 3339 text")
        }
        return Date(microsecondsSince1970: time)
    }

    /// Microseconds since 1970-01-01T00:00:00Z, rounded to the nearest, held to Int64's range.
    public var microsecondsSince1970: Int64 {
        let value = (timeIntervalSince1970 * 1_000_000).rounded()
        return Int64(exactly: value) ?? (value < 0 ? .min : .max)
    }

    /// Makes the time that many microseconds after 1970-01-01T00:00:00Z.
    public init(microsecondsSince1970 time: Int64) {
        self.init(timeIntervalSince1970: Double(time) / 1_000_000)
    }
}
