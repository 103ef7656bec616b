import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("The cache of statements")
struct StatementCacheTests {
    private func identity(_ database: Database, _ sql: String) throws -> ObjectIdentifier {
        try database.withStatement(sql) { ObjectIdentifier($0) }
    }

    @Test("a statement is prepared once and handed out again, without its old values")
    func reuse() throws {
        let database = try Database.memory()
        var first: Statement?
        try database.withStatement("SELECT ?") { statement in
            try statement.bind("secret", at: 1)
            try statement.step()
            first = statement
        }
        try database.withStatement("SELECT ?") { statement in
            try statement.step()
            #expect(statement === first)
            #expect(statement.row.values == [.null])
        }
    }

    @Test("a statement in use is not handed out twice")
    func nesting() throws {
        let database = try Database.memory()
        let sql = "VALUES (1), (2)"
        let pairs = try database.query(sql) { outer in
            try database.query(sql) { inner in [try outer.get(0, as: Int.self), try inner.get(0, as: Int.self)] }
        }
        #expect(pairs == [[[1, 1], [1, 2]], [[2, 1], [2, 2]]])
    }

    @Test("a statement whose use failed is handed out again")
    func afterError() throws {
        let database = try Database.memory("CREATE TABLE t(a UNIQUE)")
        for expected in [true, false, false] {
            let worked = (try? database.execute("INSERT INTO t VALUES (?)", 1)) != nil
            #expect(worked == expected)
        }
        expectStop { try database.query("SELECT a FROM t") { _ in throw Stop() } }
        #expect(try database.rows("SELECT a FROM t") == [[1]])
        #expect(!database.isInTransaction)
    }

    @Test("the statement that was used longest ago goes first")
    func eviction() throws {
        let database = try Database.memory(cacheLimit: 2)
        let kept = try database.withStatement("SELECT 1") { $0 }
        let dropped = try database.withStatement("SELECT 2") { $0 }
        #expect(try identity(database, "SELECT 1") == ObjectIdentifier(kept))
        _ = try identity(database, "SELECT 3")
        #expect(try identity(database, "SELECT 1") == ObjectIdentifier(kept))
        #expect(try identity(database, "SELECT 2") != ObjectIdentifier(dropped))
    }

    @Test("a cache of none keeps none")
    func noCache() throws {
        let database = try Database.memory(cacheLimit: 0)
        let first = try database.withStatement("SELECT 1") { $0 }
        #expect(try identity(database, "SELECT 1") != ObjectIdentifier(first))
    }

    @Test("a kept statement sees a column that was added since")
    func schemaChange() throws {
        let database = try Database.memory("CREATE TABLE t(a); INSERT INTO t VALUES (1)")
        #expect(try database.table("t") == [[1]])
        try database.execute("ALTER TABLE t ADD COLUMN b DEFAULT 'new'")
        #expect(try database.table("t") == [[1, "new"]])
        try database.withStatement("SELECT * FROM t") { statement in
            try statement.step()
            #expect(statement.columnNames == ["a", "b"])
            #expect(statement.row.values == [1, "new"])
        }
    }

    @Test(
        "statements that change the schema are told apart",
        arguments: [
            ("CREATE TABLE u(a)", true), ("DROP TABLE t", true), ("ALTER TABLE t ADD COLUMN c", true),
            ("CREATE INDEX i ON t(a)", true), ("CREATE VIEW v AS SELECT 1", true),
            ("CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT 1; END", true),
            ("CREATE VIRTUAL TABLE f USING fts5(a)", true), ("CREATE TEMP TABLE u(a)", false),
            ("INSERT INTO t VALUES (1)", false), ("SELECT * FROM t", false), ("REINDEX", false),
        ])
    func changesSchema(sql: String, expected: Bool) throws {
        let database = try Database.memory("CREATE TABLE t(a)")
        #expect(try database.prepare(sql).changesSchema == expected)
    }
}

@Suite("Scripts")
struct ScriptTests {
    @Test("several statements run one after the other, with comments and triggers between them")
    func script() throws {
        let database = try Database.memory()
        try database.execute(
            """
            -- A trigger holds semicolons of its own.
            CREATE TABLE t(a); CREATE TABLE log(a);
            CREATE TRIGGER r AFTER INSERT ON t BEGIN
                INSERT INTO log VALUES (new.a); INSERT INTO log VALUES (';');
            END;
            INSERT INTO t VALUES ('é;');; /* the end */
            """)
        #expect(try database.table("log") == [["é;"], [";"]])
    }

    @Test("nothing to run is no error", arguments: ["", " \n", ";", "-- a comment", "/* open"])
    func empty(sql: String) throws {
        try Database.memory().execute(sql)
    }

    @Test("of a script that fails, what stands before the error has run")
    func partial() throws {
        let database = try Database.memory("CREATE TABLE t(a UNIQUE)")
        let script = "INSERT INTO t VALUES (1); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)"
        let error = sqliteError { try database.execute(script) }
        #expect(error?.code == .constraint)
        #expect(error?.sql == " INSERT INTO t VALUES (1);")
        #expect(try database.table("t") == [[1]])
    }

    @Test("a script is one that a statement of the cache may be part of")
    func cached() throws {
        let database = try Database.memory("CREATE TABLE t(a)")
        try database.withStatement("INSERT INTO t VALUES (1)") { _ = try $0.step() }
        try database.execute("INSERT INTO t VALUES (1)")
        try database.execute("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
        #expect(try database.table("t") == [[1], [1], [1], [2]])
    }

    @Test("a script of fifty thousand statements takes no time that grows with its square", .timeLimit(.minutes(3)))
    func long() throws {
        let database = try Database.memory("CREATE TABLE t(a)")
        let line = "INSERT INTO t VALUES ('a value of about sixty-four bytes, to make it long'); "
        try database.execute("BEGIN;" + String(repeating: line, count: 50_000) + "COMMIT")
        #expect(try database.first("SELECT count(*) FROM t") == 50_000)
    }

    @Test("SQL that holds a NUL character is refused before any of it runs")
    func nul() throws {
        let database = try Database.memory("CREATE TABLE t(a)")
        let error = sqliteError {
            try database.execute("INSERT INTO t VALUES (1);\u{0} INSERT INTO t VALUES (2)")
        }
        #expect(error?.message == "the SQL holds a NUL character, at which SQLite would stop reading")
        #expect(try database.table("t") == [])
    }
}
