/// How much of a commit SQLite waits for.
///
/// [PRAGMA synchronous](https://www.sqlite.org/pragma.html#pragma_synchronous)
public enum Synchronous: String, Sendable, CaseIterable {
    /// In WAL mode commits are not synced one by one: a power loss may take back the newest, never damage the file.
    case normal = "NORMAL"
    /// Every commit is on the disk before it returns.
    case full = "FULL"
}

/// How to open a database.
public struct OpenOptions: Sendable {
    /// What may be done with the file.
    public enum Access: Sendable, Hashable {
        /// Reads only; neither the file nor its `-wal` and `-shm` are ever created.
        case readOnly
        /// Reads and writes; the file must exist.
        case readWrite
        /// Reads and writes; the file is created where it is missing.
        case create
    }

    /// What may be done with the file.
    public var access: Access
    /// How long a statement waits for another connection's lock before it fails with `busy`.
    public var busyTimeout: Duration
    /// How much of a commit is waited for.
    public var synchronous: Synchronous
    /// Whether the connection switches the file to write-ahead logging and keeps the log file at close.
    public var usesWriteAheadLog: Bool
    /// Whether foreign keys are enforced.
    public var enforcesForeignKeys: Bool
    /// The most statements that the cache keeps.
    public var statementCacheLimit: Int

    /// Options for a connection; the defaults suit a service that shares the file with others.
    public init(
        access: Access = .readWrite,
        busyTimeout: Duration = .seconds(10),
        synchronous: Synchronous = .normal,
        usesWriteAheadLog: Bool = true,
        enforcesForeignKeys: Bool = true,
        statementCacheLimit: Int = 128
    ) {
        self.access = access
        self.busyTimeout = busyTimeout
        self.synchronous = synchronous
        self.usesWriteAheadLog = usesWriteAheadLog
        self.enforcesForeignKeys = enforcesForeignKeys
        self.statementCacheLimit = statementCacheLimit
    }
}
