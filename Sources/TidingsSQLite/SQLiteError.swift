internal import CTidingsSQLite

/// What SQLite, or this layer above it, refused to do.
///
/// Carries the SQL but never the values bound to it, so that it can be logged.
public struct SQLiteError: Error, Sendable, Hashable, CustomStringConvertible {
    /// A primary result code. Open: later versions of SQLite may add codes.
    ///
    /// [Result and error codes](https://www.sqlite.org/rescode.html)
    public struct Code: RawRepresentable, Sendable, Hashable {
        /// SQLite's number for the code.
        public let rawValue: Int32

        /// Makes a code from SQLite's number; the extended part, if there is one, is dropped.
        public init(rawValue: Int32) { self.rawValue = rawValue & 0xFF }

        /// The SQL itself is wrong, or something it names does not exist.
        public static let error = Code(rawValue: 1)
        /// A policy of this library refused the statement.
        public static let notAuthorized = Code(rawValue: 23)
        /// Another connection held the lock for longer than the busy timeout.
        public static let busy = Code(rawValue: 5)
        /// A table of this connection is in use by another of its statements.
        public static let locked = Code(rawValue: 6)
        /// The file, or the file system, is read-only.
        public static let readOnly = Code(rawValue: 8)
        /// The statement was interrupted.
        public static let interrupted = Code(rawValue: 9)
        /// The operating system could not read or write.
        public static let inputOutput = Code(rawValue: 10)
        /// The file is damaged.
        public static let corrupt = Code(rawValue: 11)
        /// The disk is full.
        public static let full = Code(rawValue: 13)
        /// The file could not be opened.
        public static let cannotOpen = Code(rawValue: 14)
        /// The schema changed under the statement.
        public static let schema = Code(rawValue: 17)
        /// The value is larger than SQLite's limit.
        public static let tooBig = Code(rawValue: 18)
        /// A constraint failed.
        public static let constraint = Code(rawValue: 19)
        /// A value is not of the type that was asked for.
        public static let mismatch = Code(rawValue: 20)
        /// This interface was called in the wrong order or at the wrong time.
        public static let misuse = Code(rawValue: 21)
        /// A parameter or column index is out of range.
        public static let range = Code(rawValue: 25)
        /// The file is not a database.
        public static let notADatabase = Code(rawValue: 26)
        /// An operation stopped because an earlier statement rolled the transaction back.
        public static let aborted = Code(rawValue: 4)
        /// This SQLite lacks a feature that is needed, or is too old.
        public static let unsupported = Code(rawValue: 1 << 7)
        /// A read-only connection must wait for a writer to open the file first.
        public static let unavailable = Code(rawValue: 1 << 7 | 1)
    }

    /// The primary result code.
    public let code: Code
    /// The extended result code as SQLite gave it; equal to the primary where there is none.
    public let extendedCode: Int32
    /// What went wrong, in SQLite's words or this library's.
    public let message: String
    /// The SQL at fault, without values.
    public let sql: String?

    /// Makes an error. `extendedCode` is SQLite's result, from which the primary code is taken.
    public init(extendedCode: Int32, message: String, sql: String? = nil) {
        self.code = Code(rawValue: extendedCode)
        self.extendedCode = extendedCode
        self.message = message
        self.sql = sql
    }

    /// Makes an error of this library's own.
    public init(_ code: Code, _ message: String, sql: String? = nil) {
        self.init(extendedCode: code.rawValue, message: message, sql: sql)
    }

    /// True where the same call may succeed later without any repair: busy, locked, schema changed, interrupted,
    /// not opened by a writer yet.
    public var isRetriable: Bool {
        switch code {
        case .busy, .locked, .schema, .interrupted, .unavailable: true
        default: false
        }
    }

    /// True where the file cannot be used until someone repairs or replaces it.
    public var isFatal: Bool { code == .corrupt || code == .notADatabase }

    /// One line: message, code and SQL.
    public var description: String {
        let place = sql.map { " (in: \(Self.shortened($0)))" } ?? ""
        return "SQLite error \(extendedCode): \(message)\(place)"
    }

    /// SQL on one line and of a length that fits a log.
    private static func shortened(_ sql: String) -> String {
        let oneLine = sql.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        return oneLine.count <= 200 ? oneLine : oneLine.prefix(197) + "..."
    }
}
