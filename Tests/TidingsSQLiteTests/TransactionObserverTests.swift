import Testing
import TidingsSQLite

/// Writes down where transactions and savepoints begin and end.
private final class Recording: TransactionObserver {
    var events: [String] = []

    func didSetSavepoint(_ number: Int) { events.append("set \(number)") }
    func didRelease(_ number: Int) { events.append("release \(number)") }
    func didRollBack(to number: Int) { events.append("back to \(number)") }
    func didCommit() { events.append("commit") }
    func didRollBack() { events.append("roll back") }

    func take() -> [String] {
        defer { events = [] }
        return events
    }
}

@Suite("Observing transactions and savepoints")
struct TransactionObserverTests {
    private let recording = Recording()
    private let database: Database

    init() throws {
        database = try Database.memory("CREATE TABLE t(a UNIQUE)")
        try database.installTransactionTable("joined", observer: recording)
    }

    private func join() throws {
        try database.execute("INSERT INTO joined VALUES (1)")
        _ = recording.take()
    }

    @Test("a transaction that has not joined is not announced")
    func notJoined() throws {
        try database.transaction {
            try database.execute("INSERT INTO t VALUES (1)")
            try database.savepoint { try database.execute("INSERT INTO t VALUES (2)") }
        }
        #expect(recording.take() == [])
    }

    @Test("a commit and a rollback are announced once, and joining ends with them")
    func ends() throws {
        try database.transaction { try join() }
        #expect(recording.take() == ["commit"])
        expectStop {
            try database.transaction {
                try join()
                throw Stop()
            }
        }
        #expect(recording.take() == ["roll back"])
        try database.transaction { try database.execute("INSERT INTO t VALUES (1)") }
        #expect(recording.take() == [])
    }

    @Test("an error that rolls back is announced")
    func errorRollsBack() throws {
        try database.execute("INSERT INTO t VALUES (1)")
        sqliteError {
            try database.transaction {
                try join()
                try database.execute("INSERT OR ROLLBACK INTO t VALUES (1)")
            }
        }
        #expect(recording.take() == ["roll back"])
    }

    @Test("savepoints are announced by number, nested ones too")
    func savepoints() throws {
        try database.transaction {
            try join()
            try database.savepoint {
                #expect(recording.take() == ["set 0"])
                try database.savepoint {
                    #expect(recording.take() == ["set 1"])
                    try database.execute("INSERT INTO t VALUES (1)")
                    _ = recording.take()
                }
                #expect(recording.take() == ["release 1"])
                expectStop { try database.savepoint { throw Stop() } }
                #expect(recording.take() == ["set 1", "back to 1", "release 1"])
            }
            #expect(recording.take() == ["release 0"])
        }
        #expect(recording.take() == ["commit"])
    }

    @Test("releasing an outer savepoint releases those inside; going back to one keeps it")
    func byName() throws {
        try database.transaction {
            try join()
            try database.execute("SAVEPOINT a; SAVEPOINT b; SAVEPOINT c")
            #expect(recording.take() == ["set 0", "set 1", "set 2"])
            try database.execute("ROLLBACK TO b; ROLLBACK TO b")
            #expect(recording.take() == ["back to 1", "back to 1"])
            try database.execute("RELEASE a")
            #expect(recording.take() == ["release 0"])
        }
    }

    @Test("a statement that aborts half way goes back to its own savepoint")
    func statementAborts() throws {
        try database.transaction {
            try database.execute("INSERT INTO t VALUES (3)")
            try join()
            sqliteError { try database.execute("INSERT INTO t VALUES (1), (2), (3)") }
            #expect(recording.take() == ["set 0", "back to 0", "release 0"])
            try database.execute("SAVEPOINT a")
            _ = recording.take()
            sqliteError { try database.execute("UPDATE t SET a = 7; INSERT INTO t VALUES (8), (7)") }
            #expect(recording.take().suffix(3) == ["set 1", "back to 1", "release 1"])
        }
        #expect(try database.table("t") == [[7]])
    }

    @Test("joining inside a savepoint announces the savepoint")
    func joinsLate() throws {
        try database.transaction {
            try database.execute("SAVEPOINT a")
            try database.execute("INSERT INTO joined VALUES (1)")
            #expect(recording.take().first == "set 0")
            try database.execute("ROLLBACK TO a")
            #expect(recording.take() == ["back to 0"])
        }
        #expect(recording.take() == ["commit"])
    }

    @Test("closing with a transaction open announces that it was rolled back")
    func close() throws {
        try database.execute("BEGIN")
        try join()
        database.close()
        #expect(recording.take() == ["roll back"])
    }

    @Test("nothing can be read from the table, and none can be made like it")
    func unreadable() throws {
        #expect(sqliteError { try database.rows("SELECT * FROM joined") }?.code == .error)
        let error = sqliteError { try database.execute("CREATE VIRTUAL TABLE another USING joined") }
        #expect(error?.message == "no such module: joined")
        #expect(try database.rows("SELECT name FROM sqlite_schema WHERE name = 'joined'") == [])
    }
}
