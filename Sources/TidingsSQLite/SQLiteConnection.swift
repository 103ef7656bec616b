/// One connection to a database: an actor on a thread of its own.
///
/// The database itself is lent to closures. They run one after the other, on the connection's thread, and may block.
/// Cancelling the calling task does not stop a closure that has begun.
///
/// ```swift
/// let connection = try await SQLiteConnection.open("/data/index.db", options: OpenOptions(access: .create))
/// let count = try await connection.run { db in try db.first("SELECT count(*) FROM article", as: Int.self) }
/// ```
public actor SQLiteConnection {
    private let executor: ThreadExecutor
    private var database: Database?
    /// The path of the file.
    public nonisolated let path: String

    /// The connection's thread.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe executor.asUnownedSerialExecutor() }

    private init(path: String) throws(SQLiteError) {
        self.path = path
        executor = try ThreadExecutor(name: "sqlite")
    }

    /// Opens a connection. Throws ``SQLiteError`` with the remedy where that is not possible.
    public static func open(_ path: String, options: OpenOptions = OpenOptions()) async throws -> SQLiteConnection {
        let connection = try SQLiteConnection(path: path)
        try await connection.start(options)
        return connection
    }

    private func start(_ options: OpenOptions) throws {
        database = try Database(path: path, options: options)
    }

    /// Runs `body` on the connection's thread. Throws what it throws, and `misuse` after ``close()``.
    public func run<R: Sendable>(_ body: @Sendable (Database) throws -> R) throws -> R {
        guard let database else { throw SQLiteError(.misuse, "the connection to \(path) is closed") }
        return try body(database)
    }

    /// Closes the connection; harmless when repeated.
    public func close() {
        database?.close()
        database = nil
    }
}
