import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("Connections")
struct SQLiteConnectionTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func open(_ access: OpenOptions.Access = .create) async throws -> SQLiteConnection {
        try await SQLiteConnection.open(directory.file("a.db"), options: OpenOptions(access: access))
    }

    @Test("closures run on the connection and hand back what they return or throw", .timeLimit(.minutes(3)))
    func run() async throws {
        let connection = try await open()
        #expect(connection.path == directory.file("a.db"))
        let count = try await connection.run { database in
            try database.execute("CREATE TABLE t(a); INSERT INTO t VALUES (1), (2)")
            return database.changes
        }
        #expect(count == 2)
        await #expect(throws: Stop.self) { try await connection.run { _ in throw Stop() } }
        let sum = try await connection.run { try $0.first("SELECT sum(a) FROM t", as: Int.self) }
        #expect(sum == 3)
    }

    @Test("a file that cannot be opened throws, and leaves no connection", .timeLimit(.minutes(3)))
    func cannotOpen() async throws {
        let error = await #expect(throws: SQLiteError.self) { try await open(.readWrite) }
        #expect(error?.code == .cannotOpen)
        #expect(try await open().run { $0.isInTransaction } == false)
    }

    @Test("after closing every call is refused; closing again is harmless", .timeLimit(.minutes(3)))
    func close() async throws {
        let connection = try await open()
        await connection.close()
        await connection.close()
        let error = await #expect(throws: SQLiteError.self) { try await connection.run { _ in } }
        #expect(error?.code == .misuse)
        #expect(error?.message == "the connection to \(connection.path) is closed")
    }

    @Test("closing gives the lock back", .timeLimit(.minutes(3)))
    func closeInTransaction() async throws {
        let connection = try await open()
        try await connection.run { try $0.execute("CREATE TABLE t(a); BEGIN IMMEDIATE; INSERT INTO t VALUES (1)") }
        await connection.close()
        let other = try await open(.readWrite)
        try await other.run { try $0.execute("INSERT INTO t VALUES (2)") }
        #expect(try await other.run { try $0.table("t") } == [[2]])
    }

    @Test("a connection that nobody holds gives its lock back too", .timeLimit(.minutes(3)))
    func dropped() async throws {
        var connection: SQLiteConnection? = try await open()
        try await connection?.run { try $0.execute("CREATE TABLE t(a); BEGIN IMMEDIATE; INSERT INTO t VALUES (1)") }
        connection = nil
        let other = try await open(.readWrite)
        try await other.run { try $0.execute("INSERT INTO t VALUES (2)") }
        #expect(try await other.run { try $0.table("t") } == [[2]])
    }

    @Test("many tasks share a connection, one closure after the other", .timeLimit(.minutes(3)))
    func shared() async throws {
        let connection = try await open()
        try await connection.run { try $0.execute("CREATE TABLE t(a); INSERT INTO t VALUES (0)") }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<20 {
                group.addTask {
                    for _ in 0..<10 {
                        try await connection.run { database in
                            try database.transaction {
                                let value = try database.first("SELECT a FROM t", as: Int.self) ?? -1
                                try database.execute("UPDATE t SET a = ?", value + 1)
                            }
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try await connection.run { try $0.first("SELECT a FROM t", as: Int.self) } == 200)
    }

    @Test("connections of one file wait for each other's writes", .timeLimit(.minutes(3)))
    func contention() async throws {
        let connection = try await open()
        try await connection.run { try $0.execute("CREATE TABLE t(a); INSERT INTO t VALUES (0)") }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                let own = try await open(.readWrite)
                group.addTask {
                    for _ in 0..<50 {
                        try await own.run { database in
                            try database.transaction { try database.execute("UPDATE t SET a = a + 1") }
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try await connection.run { try $0.first("SELECT a FROM t", as: Int.self) } == 200)
    }
}
