import Synchronization
import Testing
import TidingsTestKit

@testable import TidingsSQLite

@Suite("Locks held by others")
struct BusyTests {
    private let directory: TemporaryDirectory
    private var path: String { directory.file("a.db") }

    init() throws {
        directory = try TemporaryDirectory()
        try Database(path: directory.file("a.db"), options: OpenOptions(access: .create)).execute("CREATE TABLE t(a)")
    }

    private func open(timeout: Duration) throws -> Database {
        try Database(path: path, options: OpenOptions(busyTimeout: timeout))
    }

    @Test("a write gives up when its bound is reached, and the database is usable afterwards", .timeLimit(.minutes(3)))
    func timeout() throws {
        let holder = try open(timeout: .zero)
        let database = try open(timeout: .milliseconds(60))
        try holder.transaction { () throws in
            try holder.execute("INSERT INTO t VALUES (1)")
            let start = MonotonicClock.nanoseconds
            let error = sqliteError { try database.execute("INSERT INTO t VALUES (?)", "secret") }
            let waited = MonotonicClock.nanoseconds - start
            #expect(error?.code == .busy)
            #expect(error?.message == "database is locked")
            #expect(error?.isRetriable == true)
            #expect(error?.isFatal == false)
            #expect(waited >= 60_000_000)
            // A reader is not held up.
            #expect(try database.table("t") == [])
        }
        try database.execute("INSERT INTO t VALUES (2)")
        #expect(try database.table("t") == [[1], [2]])
    }

    @Test("without a timeout a lock is reported at once")
    func noTimeout() throws {
        let holder = try open(timeout: .zero)
        for timeout in [Duration.zero, .seconds(-5)] {
            let database = try open(timeout: timeout)
            try holder.transaction {
                let error = sqliteError { try database.transaction { try database.execute("DELETE FROM t") } }
                #expect(error?.code == .busy)
            }
            try database.transaction { try database.execute("DELETE FROM t") }
        }
    }

    @Test(
        "the bound of a wait is the timeout, held to what fits",
        arguments: [
            (.zero, 0), (.seconds(-1), 0), (.nanoseconds(1), 1), (.milliseconds(5), 5_000_000),
            (.seconds(Int64.max), 9_000_000_000_000_000_000), (.seconds(Int64.min), 0),
            (.seconds(Int64.max) + .milliseconds(1), 9_000_000_000_000_000_000),
            (.seconds(9_223_372_036) + .milliseconds(999), 9_000_000_000_000_000_000),
        ] as [(Duration, UInt64)])
    func bounds(timeout: Duration, nanoseconds: UInt64) {
        #expect(BusyHandler(timeout: timeout).timeout == nanoseconds)
    }

    @Test("the sleeps shorten with the wait, and lengthen where the lock is held for long")
    func sleeps() {
        let ranges = [0, 4_999_999, 5_000_000, 19_999_999, 20_000_000, 499_999_999, 500_000_000, .max]
            .map { BusyHandler.range(waited: $0) }
        #expect(
            ranges == [
                100...500, 100...500, 50...250, 50...250, 20...100, 20...100, 500...2000, 500...2000,
            ])
    }

    @Test("a wait that reaches its bound returns false, and a new wait starts anew")
    func waits() {
        let handler = BusyHandler(timeout: .milliseconds(2))
        for _ in 1...2 {
            var attempt: Int32 = 0
            while handler.wait(attempt: attempt) { attempt += 1 }
            #expect(attempt > 0)
        }
    }

    @Test("a snapshot that is out of date cannot be written from", .timeLimit(.minutes(3)))
    func staleSnapshot() throws {
        let other = try open(timeout: .zero)
        let database = try open(timeout: .seconds(30))
        let error = sqliteError {
            try database.transaction(.deferred) {
                _ = try database.table("t")
                try other.execute("INSERT INTO t VALUES (1)")
                try database.execute("INSERT INTO t VALUES (2)")
            }
        }
        #expect(error?.code == .busy)
        #expect(error?.extendedCode == 517)
        #expect(try database.table("t") == [[1]])
    }

    @Test("many connections may create one file at the same moment", .timeLimit(.minutes(3)))
    func createdTogether() async throws {
        for round in 0..<100 {
            let path = directory.file("new\(round).db")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<8 {
                    group.addTask {
                        let connection = try await SQLiteConnection.open(path, options: OpenOptions(access: .create))
                        try await connection.run { database in
                            try database.execute("CREATE TABLE IF NOT EXISTS t(a)")
                            try database.execute("INSERT INTO t VALUES (?)", number)
                        }
                        await connection.close()
                    }
                }
                try await group.waitForAll()
            }
            let database = try Database(path: path)
            #expect(try database.rows("SELECT a FROM t ORDER BY a") == (0..<8).map { [.integer($0)] })
        }
    }

    @Test("the data version tells what others wrote, once this connection has looked")
    func dataVersion() throws {
        let database = try open(timeout: .zero)
        let other = try open(timeout: .zero)
        _ = try database.table("t")
        let first = database.dataVersion
        #expect(database.dataVersion == first)
        try other.execute("INSERT INTO t VALUES (1)")
        #expect(database.dataVersion == first)
        _ = try database.table("t")
        #expect(database.dataVersion != first)
    }
}
