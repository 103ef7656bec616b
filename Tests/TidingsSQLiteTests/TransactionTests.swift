import Testing
import TidingsSQLite

@Suite("Transactions")
struct TransactionTests {
    static let schema = "CREATE TABLE t(a UNIQUE)"

    @Test(
        "a transaction commits where its closure returns", arguments: [Database.TransactionKind.immediate, .deferred])
    func commits(kind: Database.TransactionKind) throws {
        let database = try Database.memory(Self.schema)
        let result = try database.transaction(kind) {
            #expect(database.isInTransaction)
            try database.execute("INSERT INTO t VALUES (1)")
            return 5
        }
        #expect(result == 5)
        #expect(!database.isInTransaction)
        #expect(try database.table("t") == [[1]])
    }

    @Test("a transaction is taken back where its closure throws")
    func rollsBack() throws {
        let database = try Database.memory(Self.schema)
        expectStop {
            try database.transaction {
                try database.execute("INSERT INTO t VALUES (1)")
                throw Stop()
            }
        }
        #expect(!database.isInTransaction)
        #expect(try database.table("t") == [])
        try database.transaction { try database.execute("INSERT INTO t VALUES (2)") }
        #expect(try database.table("t") == [[2]])
    }

    @Test("a transaction inside a transaction is refused, with the remedy")
    func nested() throws {
        let database = try Database.memory(Self.schema)
        try database.transaction {
            let error = sqliteError { try database.transaction {} }
            #expect(error?.code == .misuse)
            #expect(error?.message == "a transaction is open already: use savepoint(_:) to nest")
            try database.execute("INSERT INTO t VALUES (1)")
        }
        #expect(try database.table("t") == [[1]])
    }

    @Test("a statement that fails leaves the rest of its transaction alone")
    func statementAborts() throws {
        let database = try Database.memory(Self.schema)
        try database.transaction {
            try database.execute("INSERT INTO t VALUES (1)")
            sqliteError { try database.execute("INSERT INTO t VALUES (2), (1)") }
            #expect(!database.isAborted)
            try database.execute("INSERT INTO t VALUES (3)")
        }
        #expect(try database.table("t") == [[1], [3]])
    }

    @Test("a deferred foreign key that fails at the commit takes the transaction back")
    func failedCommit() throws {
        let database = try Database.memory(
            """
            CREATE TABLE parent(id INTEGER PRIMARY KEY);
            CREATE TABLE child(p REFERENCES parent DEFERRABLE INITIALLY DEFERRED)
            """)
        let error = sqliteError {
            try database.transaction { try database.execute("INSERT INTO child VALUES (1)") }
        }
        #expect(error?.code == .constraint)
        #expect(error?.message == "FOREIGN KEY constraint failed")
        #expect(!database.isInTransaction)
        #expect(!database.isAborted)
        #expect(try database.table("child") == [])
    }

    @Test("begin, commit and roll back by hand")
    func byHand() throws {
        let database = try Database.memory(Self.schema)
        let begin = try database.prepare("BEGIN IMMEDIATE")
        let commit = try database.prepare("COMMIT")
        for number in 1...2 {
            try database.begin(begin)
            try database.execute("INSERT INTO t VALUES (?)", number)
            try database.commit(commit)
        }
        try database.begin(begin)
        try database.execute("INSERT INTO t VALUES (3)")
        database.rollBack()
        database.rollBack()
        #expect(!database.isInTransaction)
        #expect(try database.table("t") == [[1], [2]])
    }
}

@Suite("Savepoints")
struct SavepointTests {
    @Test("a savepoint that throws takes back what it did, and no more")
    func nests() throws {
        let database = try Database.memory(TransactionTests.schema)
        try database.transaction {
            try database.execute("INSERT INTO t VALUES (1)")
            try database.savepoint {
                try database.execute("INSERT INTO t VALUES (2)")
                expectStop {
                    try database.savepoint {
                        try database.execute("INSERT INTO t VALUES (3)")
                        throw Stop()
                    }
                }
                try database.execute("INSERT INTO t VALUES (4)")
            }
            expectStop {
                try database.savepoint {
                    try database.savepoint { try database.execute("INSERT INTO t VALUES (5)") }
                    throw Stop()
                }
            }
        }
        #expect(try database.table("t") == [[1], [2], [4]])
    }

    @Test("a savepoint outside a transaction is a transaction")
    func outermost() throws {
        let database = try Database.memory(TransactionTests.schema)
        let result = try database.savepoint {
            #expect(database.isInTransaction)
            try database.execute("INSERT INTO t VALUES (1)")
            return 6
        }
        #expect(result == 6)
        expectStop {
            try database.savepoint {
                try database.execute("INSERT INTO t VALUES (2)")
                throw Stop()
            }
        }
        #expect(!database.isInTransaction)
        #expect(try database.table("t") == [[1]])
    }
}

@Suite("Transactions that an error has rolled back")
struct AbortedTransactionTests {
    /// Statements that roll the whole transaction back.
    static let killers = [
        "INSERT OR ROLLBACK INTO t VALUES (1)",
        "INSERT INTO t VALUES ('raise')",
        "UPDATE OR ROLLBACK t SET a = 1 WHERE a = 2",
    ]
    private static let schema = """
        CREATE TABLE t(a UNIQUE); INSERT INTO t VALUES (1), (2);
        CREATE TRIGGER r BEFORE INSERT ON t WHEN new.a = 'raise' BEGIN SELECT RAISE(ROLLBACK, 'raised'); END
        """
    private static let message =
        "the transaction has ended before its closure did, by an error that rolled it back or by SQL: "
        + "let the error leave the closure, then try again"

    @Test("nothing runs any more, and nothing is kept", arguments: killers)
    func nothingRuns(killer: String) throws {
        let database = try Database.memory(Self.schema)
        let error = sqliteError {
            try database.transaction {
                try database.execute("INSERT INTO t VALUES (3)")
                let cause = sqliteError { try database.execute(killer) }
                #expect(cause?.code == .constraint)
                #expect(database.isAborted)
                for sql in ["INSERT INTO t VALUES (4)", "SELECT 1", "COMMIT", "BEGIN"] {
                    let later = sqliteError { try database.execute(sql) }
                    #expect(later?.code == .aborted)
                    #expect(later?.message == Self.message)
                }
            }
        }
        #expect(error?.code == .aborted)
        #expect(!database.isAborted)
        #expect(!database.isInTransaction)
        #expect(try database.table("t") == [[1], [2]])
        try database.transaction { try database.execute("INSERT INTO t VALUES (5)") }
        #expect(try database.table("t") == [[1], [2], [5]])
    }

    @Test("the error that rolled back is the one that leaves the closure", arguments: killers)
    func originalError(killer: String) throws {
        let database = try Database.memory(Self.schema)
        let error = sqliteError { try database.transaction { try database.execute(killer) } }
        #expect(error?.code == .constraint)
        #expect(error?.sql == killer)
        #expect(!database.isAborted)
    }

    @Test("neither a savepoint nor a transaction can begin in it", arguments: killers)
    func nesting(killer: String) throws {
        let database = try Database.memory(Self.schema)
        sqliteError {
            try database.transaction {
                sqliteError { try database.execute(killer) }
                for error in [
                    sqliteError {
                        try database.transaction { try database.execute("INSERT INTO t VALUES (4)") }
                    },
                    sqliteError {
                        try database.savepoint { try database.execute("INSERT INTO t VALUES (4)") }
                    },
                ] { #expect(error?.code == .aborted) }
            }
        }
        #expect(try database.table("t") == [[1], [2]])
    }

    @Test("an error that rolls back leaves its savepoints as it was", arguments: killers)
    func inSavepoints(killer: String) throws {
        let database = try Database.memory(Self.schema)
        let error = sqliteError {
            try database.transaction {
                try database.savepoint { try database.savepoint { try database.execute(killer) } }
            }
        }
        #expect(error?.code == .constraint)
        #expect(!database.isInTransaction)
    }

    @Test("a savepoint outside a transaction keeps nothing either", arguments: killers)
    func outermostSavepoint(killer: String) throws {
        let database = try Database.memory(Self.schema)
        let error = sqliteError {
            try database.savepoint {
                sqliteError { try database.execute(killer) }
                sqliteError { try database.execute("INSERT INTO t VALUES (4)") }
            }
        }
        #expect(error?.code == .aborted)
        #expect(!database.isInTransaction)
        #expect(try database.table("t") == [[1], [2]])
    }

    @Test("no blob is written in it")
    func blobs() throws {
        let database = try Database.memory(Self.schema + "; CREATE TABLE b(x); INSERT INTO b VALUES (x'01')")
        sqliteError {
            try database.transaction {
                sqliteError { try database.execute(Self.killers[0]) }
                let error = sqliteError {
                    try database.withBlob(table: "b", column: "x", rowID: 1, isWritable: true) { try $0.write([2]) }
                }
                #expect(error?.code == .aborted)
            }
        }
        #expect(try database.table("b") == [[.blob([1])]])
    }

    @Test("a COMMIT of the closure's own ends it too")
    func ownCommit() throws {
        let database = try Database.memory(Self.schema)
        let error = sqliteError {
            try database.transaction {
                try database.execute("INSERT INTO t VALUES (3); COMMIT")
                try database.execute("INSERT INTO t VALUES (4)")
            }
        }
        #expect(error?.code == .aborted)
        #expect(try database.table("t") == [[1], [2], [3]])
    }
}
