import CTidingsSQLite
import Foundation

/// The floor: SQLite by its C functions, as a program in C would call them.
final class RawDatabase {
    let handle: OpaquePointer
    private var statements: [OpaquePointer] = []
    private let beginStatement: OpaquePointer
    private let commitStatement: OpaquePointer

    init(_ path: String, synchronous: String = "NORMAL") throws {
        var opened: OpaquePointer?
        let code = sqlite3_open_v2(
            path, &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nil)
        guard code == SQLITE_OK, let opened else { throw BenchmarkError("cannot open \(path): code \(code)") }
        handle = opened
        sqlite3_busy_handler(
            opened,
            { _, attempt in
                usleep(UInt32.random(in: 100...500))
                return attempt < 100_000 ? 1 : 0
            }, nil)
        try Self.execute(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = \(synchronous); PRAGMA foreign_keys = ON", handle)
        beginStatement = try Self.prepare("BEGIN IMMEDIATE", handle)
        commitStatement = try Self.prepare("COMMIT", handle)
        statements = [beginStatement, commitStatement]
    }

    deinit {
        for statement in statements { sqlite3_finalize(statement) }
        sqlite3_close(handle)
    }

    func execute(_ sql: String) throws { try Self.execute(sql, handle) }

    /// A statement that goes with the connection.
    func prepare(_ sql: String) throws -> OpaquePointer {
        let statement = try Self.prepare(sql, handle)
        statements.append(statement)
        return statement
    }

    func integer(_ sql: String) throws -> Int64 {
        let statement = try Self.prepare(sql, handle)
        defer { sqlite3_finalize(statement) }
        guard sqlite3_step(statement) == SQLITE_ROW else { throw BenchmarkError("no row: \(sql)") }
        return sqlite3_column_int64(statement, 0)
    }

    @inline(__always)
    func begin() throws { try run(beginStatement) }

    @inline(__always)
    func commit() throws { try run(commitStatement) }

    /// Runs a statement without a result to its end.
    @inline(__always)
    func run(_ statement: OpaquePointer) throws {
        let code = sqlite3_step(statement)
        sqlite3_reset(statement)
        guard code == SQLITE_DONE else {
            throw BenchmarkError("SQLite code \(code): \(String(cString: sqlite3_errmsg(handle)))")
        }
    }

    /// Empties the log into the file.
    func checkpoint() throws { try execute("PRAGMA wal_checkpoint(TRUNCATE)") }

    /// Virtual-machine steps of all statements since the last call.
    func takeVirtualMachineSteps() -> Int {
        statements.reduce(0) { $0 + Int(sqlite3_stmt_status($1, SQLITE_STMTSTATUS_VM_STEP, 1)) }
    }

    private static func execute(_ sql: String, _ handle: OpaquePointer) throws {
        guard sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK else {
            throw BenchmarkError("\(sql): \(String(cString: sqlite3_errmsg(handle)))")
        }
    }

    private static func prepare(_ sql: String, _ handle: OpaquePointer) throws -> OpaquePointer {
        var prepared: OpaquePointer?
        sqlite3_prepare_v3(handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &prepared, nil)
        guard let prepared else { throw BenchmarkError("\(sql): \(String(cString: sqlite3_errmsg(handle)))") }
        return prepared
    }
}
