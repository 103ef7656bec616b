import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("Statements")
struct StatementTests {
    @Test("the number of values must be exact", arguments: [("SELECT 1", 1), ("SELECT ?", 2), ("SELECT ?3", 1)])
    func valueCount(sql: String, count: Int) throws {
        let database = try Database.memory()
        let error = sqliteError {
            if count == 1 { try database.rows(sql, 1) } else { try database.rows(sql, 1, 2) }
        }
        #expect(error?.code == .range)
        #expect(error?.sql == sql)
    }

    @Test("parameters without values are refused")
    func missingValues() throws {
        let database = try Database.memory("CREATE TABLE t(a)")
        let error = sqliteError { try database.execute("INSERT INTO t VALUES (?)") }
        #expect(error?.code == .range)
        #expect(error?.message == "the statement has 1 parameters, no values were given")
        #expect(try database.table("t") == [])
    }

    @Test("a query that is no statement, or several, is refused")
    func exactlyOne() throws {
        let database = try Database.memory()
        for (sql, message) in [
            ("", "no SQL statement"), (" -- nothing", "no SQL statement"),
            ("SELECT 1; SELECT 2", "several statements where one is expected: run them one by one"),
        ] {
            let error = sqliteError { try database.rows(sql) }
            #expect(error?.message == message)
        }
        #expect(try database.rows("SELECT 1; -- the end") == [[1]])
        #expect(try database.rows(" ; SELECT 1;;") == [[1]])
    }

    @Test("first returns nil where there is no row, and NULL where the row holds it")
    func first() throws {
        let database = try Database.memory()
        #expect(try database.first("SELECT 1 WHERE 0", as: Int.self) == nil)
        #expect(try database.first("SELECT NULL", as: Int?.self) == .some(nil))
        #expect(try database.first("VALUES (1), (2)") == 1)
    }

    @Test("first runs a writing statement to its end, and reports how it ended")
    func firstOfReturning() throws {
        let database = try Database.memory(
            """
            CREATE TABLE parent(id INTEGER PRIMARY KEY);
            CREATE TABLE child(id INTEGER PRIMARY KEY, parent REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
            INSERT INTO parent VALUES (1)
            """)
        #expect(try database.first("INSERT INTO child(parent) VALUES (1), (1) RETURNING id") == 1)
        #expect(try database.table("child") == [[1, 1], [2, 1]])
        let error = sqliteError {
            try database.first("INSERT INTO child(parent) VALUES (99) RETURNING id", as: Int.self)
        }
        #expect(error?.message == "FOREIGN KEY constraint failed")
        #expect(try database.table("child") == [[1, 1], [2, 1]])
    }

    @Test("a writing statement left before its end reports how it ended")
    func abandonedReturning() throws {
        let database = try Database.memory(
            """
            CREATE TABLE parent(id INTEGER PRIMARY KEY);
            CREATE TABLE child(parent REFERENCES parent DEFERRABLE INITIALLY DEFERRED)
            """)
        let error = sqliteError {
            try database.withStatement("INSERT INTO child VALUES (99) RETURNING parent") { statement in
                try statement.step()
            }
        }
        #expect(error?.message == "FOREIGN KEY constraint failed")
        #expect(try database.table("child") == [])
        #expect(!database.isInTransaction)
    }

    @Test("a loop of one's own binds, steps and resets")
    func loop() throws {
        let database = try Database.memory("CREATE TABLE t(a, b)")
        try database.withStatement("INSERT INTO t VALUES (?, ?)") { statement in
            #expect(statement.parameterCount == 2)
            #expect(statement.columnCount == 0)
            #expect(!statement.isReadOnly)
            for number in 1...3 {
                try statement.bind(Int64(number), at: 1)
                try statement.bind("n\(number)", at: 2)
                #expect(try statement.step() == false)
            }
            statement.clearBindings()
            try statement.step()
        }
        #expect(try database.table("t") == [[1, "n1"], [2, "n2"], [3, "n3"], [nil, nil]])
        var read: [Int] = []
        try database.withStatement("SELECT a, b FROM t WHERE a > ? ORDER BY a") { statement in
            #expect(statement.isReadOnly)
            #expect(statement.columnNames == ["a", "b"])
            try statement.bind(1 as Int64, at: 1)
            try statement.forEachRow { read.append(try $0.get(0)) }
            // Bound values stay.
            try statement.forEachRow { read.append(try $0.get("a")) }
        }
        #expect(read == [2, 3, 2, 3])
    }

    @Test("binding past the last parameter, and to a statement that is running, is refused")
    func badBinding() throws {
        let database = try Database.memory()
        try database.withStatement("SELECT ?") { statement in
            for index in [0, 2, -1] {
                let error = sqliteError { try statement.bind(1 as Int64, at: index) }
                #expect(error?.code == .range)
                #expect(error?.sql == "SELECT ?")
            }
            try statement.step()
            let error = sqliteError { try statement.bindNull(at: 1) }
            #expect(error?.code == .misuse)
            statement.reset()
            try statement.bindNull(at: 1)
        }
    }

    @Test("a borrowed blob is read where it lies")
    func borrowedBlob() throws {
        let database = try Database.memory()
        let bytes: [UInt8] = [1, 2, 3]
        try database.withStatement("SELECT ?, ?") { statement in
            try unsafe bytes.withUnsafeBytes { buffer in
                try unsafe statement.bind(borrowedBlob: buffer, at: 1)
                try unsafe statement.bind(borrowedBlob: UnsafeRawBufferPointer(start: nil, count: 0), at: 2)
                #expect(try statement.step())
                #expect(statement.row.values == [.blob(bytes), .blob([])])
            }
        }
    }

    @Test("virtual-machine steps are counted since the last call")
    func steps() throws {
        let database = try Database.memory()
        try database.withStatement("VALUES (1), (2)") { statement in
            try statement.forEachRow { _ in }
            #expect(statement.takeVirtualMachineSteps() > 0)
            #expect(statement.takeVirtualMachineSteps() == 0)
        }
    }

    @Test("changes, total changes and the last rowid are SQLite's")
    func counters() throws {
        let database = try Database.memory("CREATE TABLE t(a)")
        try database.execute("INSERT INTO t VALUES (1), (2), (3)")
        #expect(database.changes == 3)
        #expect(database.lastInsertedRowID == 3)
        try database.execute("DELETE FROM t WHERE a = ?", 2)
        #expect(database.changes == 1)
        #expect(database.totalChanges == 4)
        database.lastInsertedRowID = 42
        #expect(try database.first("SELECT last_insert_rowid()") == 42)
    }

    @Test("a closed database answers with misuse")
    func closed() throws {
        let database = try Database.memory()
        database.close()
        database.close()
        let error = sqliteError { try database.rows("SELECT 1") }
        #expect(error?.code == .misuse)
        #expect(error?.message == "the database is closed")
    }
}
