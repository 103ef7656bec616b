import Testing
import TidingsSQLite

@Suite("The policy on statements of users")
struct PolicyTests {
    /// Remembers what it is asked, and refuses one kind.
    private final class Policy {
        var seen: [String] = []
        var refused: AuthorizedAction.Kind?

        func decide(_ action: AuthorizedAction) -> AuthorizationDecision {
            let parts = [action.first, action.second, action.database].map { $0 ?? "-" }.joined(separator: " ")
            seen.append("\(action.kind) \(parts)")
            return action.kind == refused ? .deny(reason: "no \(action.kind) here") : .allow
        }
    }

    private func make(_ schema: String = "", refusing kind: AuthorizedAction.Kind? = nil) throws -> (Database, Policy) {
        let database = try Database.memory(schema)
        let policy = Policy()
        policy.refused = kind
        database.setPolicy { policy.decide($0) }
        return (database, policy)
    }

    @Test(
        "what a statement would do is told to the policy",
        arguments: [
            ("INSERT INTO t VALUES (1)", "insert t - main"),
            ("UPDATE t SET a = 1", "update t a main"),
            ("DELETE FROM t", "delete t - main"),
            ("CREATE TABLE u(a)", "schemaChange u - main"),
            ("DROP TABLE t", "schemaChange t - main"),
            ("ALTER TABLE t ADD COLUMN b", "schemaChange t - main"),
            ("BEGIN", "transaction BEGIN - -"),
            ("ATTACH 'x.db' AS x", "attach x.db - -"),
            ("DETACH x", "detach x - -"),
            ("PRAGMA user_version = 3", "pragma user_version 3 -"),
            ("SAVEPOINT s", "other BEGIN s -"),
        ])
    func seen(sql: String, expected: String) throws {
        let (database, policy) = try make("CREATE TABLE t(a)")
        _ = try database.prepare(sql)
        #expect(policy.seen.contains(expected), "saw \(policy.seen)")
    }

    @Test(
        "a refused statement is not prepared, and its error gives the reason",
        arguments: [
            (.insert, "INSERT INTO t VALUES (1)"), (.update, "UPDATE t SET a = 1"), (.delete, "DELETE FROM t"),
            (.schemaChange, "CREATE TABLE u(a)"), (.transaction, "BEGIN"), (.attach, "ATTACH 'x.db' AS x"),
            (.pragma, "PRAGMA user_version = 3"), (.detach, "DETACH x"),
        ] as [(AuthorizedAction.Kind, String)])
    func refused(kind: AuthorizedAction.Kind, sql: String) throws {
        let (database, _) = try make("CREATE TABLE t(a); INSERT INTO t VALUES (7)", refusing: kind)
        let error = sqliteError { try database.execute(sql) }
        #expect(error?.code == .notAuthorized)
        #expect(error?.message == "no \(kind) here")
        #expect(error?.sql == sql)
        #expect(try database.table("t") == [[7]])
    }

    @Test("what a trigger would do counts")
    func triggers() throws {
        let (database, _) = try make(
            """
            CREATE TABLE t(a); CREATE TABLE log(a);
            CREATE TRIGGER r AFTER INSERT ON t BEGIN DELETE FROM log; END
            """, refusing: .delete)
        sqliteError { try database.execute("INSERT INTO t VALUES (1)") }
    }

    @Test("the library's own statements are not asked about")
    func internalStatements() throws {
        let (database, policy) = try make("CREATE TABLE t(a)", refusing: .insert)
        try database.internally { try database.execute("INSERT INTO t VALUES (1)") }
        #expect(policy.seen == [])
        // Nested, and after an error, the policy is back where it was.
        expectStop { try database.internally { try database.internally { throw Stop() } } }
        sqliteError { try database.execute("INSERT INTO t VALUES (2)") }
        #expect(try database.table("t") == [[1]])
    }

    @Test("what the library has prepared for itself is not handed to users")
    func internalCache() throws {
        let (database, _) = try make(refusing: .pragma)
        let sql = "PRAGMA user_version"
        #expect(try database.internally { try database.first(sql) } == 0)
        for _ in 1...2 {
            let error = sqliteError { try database.first(sql, as: Int.self) }
            #expect(error?.message == "no pragma here")
        }
        #expect(try database.internally { try database.first(sql) } == 0)
    }

    @Test("a policy holds for statements that were prepared before it was set")
    func setLater() throws {
        let database = try Database.memory("CREATE TABLE t(a)")
        try database.execute("INSERT INTO t VALUES (?)", 1)
        database.setPolicy { $0.kind == .insert ? .deny(reason: "no more") : .allow }
        let error = sqliteError { try database.execute("INSERT INTO t VALUES (?)", 2) }
        #expect(error?.message == "no more")
    }

    @Test("a policy holds where the schema has changed since a statement was prepared")
    func prepareAgain() throws {
        let (database, policy) = try make("CREATE TABLE t(a)")
        try database.execute("INSERT INTO t VALUES (?)", 1)
        try database.execute("CREATE INDEX i ON t(a)")
        policy.refused = .insert
        let error = sqliteError { try database.execute("INSERT INTO t VALUES (?)", 2) }
        #expect(error?.code == .notAuthorized)
        #expect(try database.table("t") == [[1]])
    }

    @Test("writing through a blob is an update; reading is not")
    func blobs() throws {
        let (database, policy) = try make("CREATE TABLE t(a); INSERT INTO t VALUES (x'01')", refusing: .update)
        #expect(try database.withBlob(table: "t", column: "a", rowID: 1) { try $0.read(1) } == [1])
        #expect(policy.seen == [])
        let error = sqliteError {
            try database.withBlob(table: "t", column: "a", rowID: 1, isWritable: true) { try $0.write([2]) }
        }
        #expect(error?.code == .notAuthorized)
        #expect(error?.message == "no update here")
        #expect(policy.seen == ["update t a main"])
        try database.internally {
            try database.withBlob(table: "t", column: "a", rowID: 1, isWritable: true) { try $0.write([3]) }
        }
        #expect(try database.table("t") == [[.blob([3])]])
    }
}
