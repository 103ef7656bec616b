internal import FoundationEssentials
package import TidingsSQLite

/// What went wrong with a store or its history: what, where, and the remedy.
///
/// Carries no row values.
public struct HistoryError: Error, Sendable, CustomStringConvertible {
    /// The kind of failure. Open: later versions may add kinds.
    public struct Code: Sendable, Hashable, CustomStringConvertible {
        /// The name, as it appears in messages and logs.
        public let description: String
        private init(_ name: String) { description = name }

        /// The author is empty or not usable as one.
        public static let invalidAuthor = Code("invalidAuthor")
        /// There is no file, or it cannot be opened.
        public static let cannotOpen = Code("cannotOpen")
        /// The file is a database but no store: it was never initialised.
        public static let notAStore = Code("notAStore")
        /// The file is not a database, or is damaged.
        public static let notADatabase = Code("notADatabase")
        /// The store was written by a newer version.
        public static let unsupportedFormat = Code("unsupportedFormat")
        /// The loaded SQLite is too old or lacks the preupdate hook.
        public static let unsupportedSQLite = Code("unsupportedSQLite")
        /// The store cannot be read yet; a writer must open it first. Retriable.
        public static let storeUnavailable = Code("storeUnavailable")
        /// The file lies on a network file system.
        public static let networkFilesystem = Code("networkFilesystem")
        /// Another connection held the lock for longer than the busy timeout. Retriable.
        public static let busy = Code("busy")
        /// The disk is full.
        public static let diskFull = Code("diskFull")
        /// The store, or this connection to it, is read-only.
        public static let readOnly = Code("readOnly")
        /// The operating system does not let this user do it.
        public static let notPermitted = Code("notPermitted")
        /// Another store's file was put in the place of the one that was open.
        public static let storeReplaced = Code("storeReplaced")
        /// The store was closed.
        public static let closed = Code("closed")
        /// The table cannot be tracked.
        public static let untrackable = Code("untrackable")
        /// There is no such table or entity.
        public static let noSuchEntity = Code("noSuchEntity")
        /// The token belongs to another store, another epoch or a lost lineage: resync.
        public static let tokenInvalid = Code("tokenInvalid")
        /// History after the token has been purged: resync.
        public static let tokenExpired = Code("tokenExpired")
        /// The request cannot be carried out as it is written.
        public static let invalidRequest = Code("invalidRequest")
        /// Stored history cannot be decoded.
        public static let damagedHistory = Code("damagedHistory")
        /// The transaction was rolled back by an error inside it.
        public static let rolledBack = Code("rolledBack")
        /// A constraint failed at the commit.
        public static let constraint = Code("constraint")
        /// SQLite or the operating system failed in another way.
        public static let database = Code("database")
    }

    /// The kind of failure.
    public let code: Code
    /// What went wrong, where, and the remedy.
    public let message: String
    /// The error underneath, if there is one.
    public let underlyingError: (any Error)?

    /// Makes an error.
    public init(_ code: Code, _ message: String, underlyingError: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.underlyingError = underlyingError
    }

    /// Makes an error of one of SQLite's, saying what was being done.
    package init(_ error: SQLiteError, while doing: String, path: String) {
        let code: Code
        let remedy: String
        switch error.code {
        case .busy:
            code = .busy
            remedy = "another connection holds the lock: end its transaction, or raise the busy timeout"
        case .full:
            code = .diskFull
            remedy = "nothing was written: free some space, then try again"
        case .readOnly:
            code = .readOnly
            remedy = "give this user write permission on the file and its directory"
        case .notADatabase, .corrupt:
            code = .notADatabase
            remedy = "check the path, or restore the file from a backup"
        case .unavailable:
            code = .storeUnavailable
            remedy = ""
        case .constraint:
            code = .constraint
            remedy = "nothing was written"
        case .cannotOpen:
            code = .cannotOpen
            remedy = ""
        case .unsupported:
            code = .unsupportedSQLite
            remedy = ""
        case .aborted:
            code = .rolledBack
            remedy = ""
        default:
            code = .database
            remedy = ""
        }
        let tail = remedy.isEmpty ? "" : ": \(remedy)"
        self.init(code, "\(path): \(doing) failed: \(error.message)\(tail)", underlyingError: error)
    }

    /// A thread for one side of a store, or the store's error.
    package static func threadStarted(_ name: String, for path: String) throws(HistoryError) -> ThreadExecutor {
        do throws(SQLiteError) {
            return try ThreadExecutor(name: name)
        } catch {
            throw HistoryError(error, while: "starting a thread", path: path)
        }
    }

    /// The file at the path is another store than the one that was opened.
    static func replaced(_ path: String, by storeID: UUID) -> HistoryError {
        HistoryError(
            .storeReplaced,
            "\(path) was replaced by another store (\(storeID)) while it was open: put the right file back, or close and "
                + "open it again")
    }

    /// True where the same call may succeed later without any repair.
    public var isRetriable: Bool { code == .busy || code == .storeUnavailable || code == .diskFull }

    /// True where the store cannot be used until someone repairs or upgrades something.
    public var isFatal: Bool {
        [.notADatabase, .unsupportedFormat, .unsupportedSQLite, .storeReplaced].contains(code)
    }

    /// The message behind the code.
    public var description: String { "\(code): \(message)" }
}
