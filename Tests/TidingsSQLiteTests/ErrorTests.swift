import Foundation
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("Errors")
struct ErrorTests {
    private static let schema = """
        CREATE TABLE t(a INTEGER PRIMARY KEY, u UNIQUE, n NOT NULL DEFAULT 0, c CHECK (c <> 'secret'), i INTEGER);
        CREATE TABLE child(p REFERENCES t);
        CREATE TABLE strict(a INTEGER) STRICT;
        INSERT INTO t(a, u) VALUES (1, 'secret');
        CREATE TRIGGER r BEFORE UPDATE OF i ON t WHEN new.i = 'secret' BEGIN SELECT RAISE(ABORT, 'refused'); END
        """

    @Test(
        "an error carries SQLite's code, its words and the SQL, and never a bound value",
        arguments: [
            ("INSERT INTO t(u) VALUES (?)", 2067, "UNIQUE constraint failed: t.u"),
            ("INSERT INTO t(c) VALUES (?)", 275, "CHECK constraint failed: c <> 'secret'"),
            ("INSERT INTO t(n) VALUES (nullif(?, 'secret'))", 1299, "NOT NULL constraint failed: t.n"),
            ("INSERT INTO t(a) VALUES (?)", 20, "datatype mismatch"),
            ("INSERT INTO child VALUES (?)", 787, "FOREIGN KEY constraint failed"),
            ("INSERT INTO strict VALUES (?)", 3091, "cannot store TEXT value in INTEGER column strict.a"),
            ("UPDATE t SET i = ?", 1811, "refused"),
            ("SELECT json(?)", 1, "malformed JSON"),
            ("SELECT abs(-9223372036854775808), ?", 1, "integer overflow"),
        ])
    func bound(sql: String, code: Int32, message: String) throws {
        let database = try Database.memory(Self.schema)
        let error = sqliteError { try database.execute(sql, "secret") }
        #expect(error?.extendedCode == code)
        #expect(error?.code.rawValue == code & 0xFF)
        #expect(error?.message == message)
        #expect(error?.sql == sql)
        #expect(error.map { "\($0)" } == "SQLite error \(code): \(message) (in: \(sql))")
    }

    @Test(
        "SQL that is wrong is named",
        arguments: [
            ("SELEC 1", "near \"SELEC\": syntax error"), ("SELECT * FROM none", "no such table: none"),
            ("SELECT none FROM t", "no such column: none"), ("SELECT none()", "no such function: none"),
            ("SELECT 'open", "unrecognized token: \"'open\""), ("INSERT INTO t VALUES", "incomplete input"),
        ])
    func wrongSQL(sql: String, message: String) throws {
        let database = try Database.memory(Self.schema)
        let error = sqliteError { try database.execute(sql) }
        #expect(error?.code == .error)
        #expect(error?.message == message)
        #expect(error?.sql == sql)
    }

    @Test("a value past SQLite's limit is too big, and is not in the error")
    func tooBig() throws {
        let database = try Database.memory(Self.schema)
        let error = sqliteError { try database.execute("SELECT zeroblob(?)", 2_000_000_000) }
        #expect(error?.code == .tooBig)
        #expect(error?.description == "SQLite error 18: string or blob too big (in: SELECT zeroblob(?))")
    }

    @Test("the description has one line, and SQL of a length that fits a log")
    func description() {
        #expect(SQLiteError(.error, "no").description == "SQLite error 1: no")
        #expect(
            SQLiteError(.error, "no", sql: "SELECT\n\t1 ,\n 2").description == "SQLite error 1: no (in: SELECT 1 , 2)")
        let long = String(repeating: "x", count: 201)
        #expect(SQLiteError(.busy, "no", sql: long).description == "SQLite error 5: no (in: \(long.prefix(197))...)")
        let fits = String(repeating: "x", count: 200)
        #expect(SQLiteError(.busy, "no", sql: fits).description == "SQLite error 5: no (in: \(fits))")
    }

    @Test("only what may pass by itself is retriable, and only a damaged file is fatal")
    func kinds() {
        let codes: [SQLiteError.Code] = [
            .error, .notAuthorized, .busy, .locked, .readOnly, .interrupted, .inputOutput, .corrupt, .full, .cannotOpen,
            .schema, .tooBig, .constraint, .mismatch, .misuse, .range, .notADatabase, .aborted, .unsupported,
            .unavailable,
        ]
        #expect(Set(codes).count == codes.count)
        #expect(
            codes.filter { SQLiteError($0, "").isRetriable } == [.busy, .locked, .interrupted, .schema, .unavailable])
        #expect(codes.filter { SQLiteError($0, "").isFatal } == [.corrupt, .notADatabase])
    }

    @Test("the extended code keeps what the code drops")
    func extended() {
        let error = SQLiteError(extendedCode: 517, message: "")
        #expect(error.code == .busy)
        #expect(error.extendedCode == 517)
        #expect(error == SQLiteError(extendedCode: 517, message: ""))
        #expect(error != SQLiteError(.busy, ""))
    }

    @Test("a full disk is reported as full, and the database is usable afterwards")
    func full() throws {
        let directory = try TemporaryDirectory()
        let database = try Database(path: directory.file("a.db"), options: OpenOptions(access: .create))
        try database.execute("CREATE TABLE t(a)")
        _ = try database.rows("PRAGMA max_page_count = 10")
        let error = sqliteError {
            try database.transaction {
                try database.execute("INSERT INTO t VALUES (1)")
                try database.execute("INSERT INTO t VALUES (zeroblob(?))", 1_000_000)
            }
        }
        #expect(error?.code == .full)
        #expect(error?.message == "database or disk is full")
        #expect(!database.isInTransaction)
        try database.execute("INSERT INTO t VALUES (2)")
        #expect(try database.table("t") == [[2]])
    }

    @Test("a damaged file is reported as fatal")
    func corrupt() throws {
        let directory = try TemporaryDirectory()
        let path = directory.file("a.db")
        let options = OpenOptions(access: .create, usesWriteAheadLog: false)
        try Database(path: path, options: options).execute(
            "CREATE TABLE t(a); INSERT INTO t VALUES (zeroblob(100)), (zeroblob(100))")
        var bytes = try Data(contentsOf: URL(filePath: path))
        // The table's page: the second.
        bytes.replaceSubrange(4096..<8192, with: repeatElement(0xA5, count: 4096))
        try bytes.write(to: URL(filePath: path))
        let error = sqliteError { try Database(path: path, options: options).table("t") }
        #expect(error?.code == .corrupt)
        #expect(error?.isFatal == true)
    }
}
