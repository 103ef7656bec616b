import Foundation
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("Opening files")
struct FileTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func open(_ name: String, _ access: OpenOptions.Access = .readWrite) throws -> Database {
        try Database(path: directory.file(name), options: OpenOptions(access: access, busyTimeout: .zero))
    }

    /// A database in write-ahead mode; its companions stay.
    private func makeStore(_ name: String = "a.db") throws {
        let database = try open(name, .create)
        try database.execute("CREATE TABLE t(a); INSERT INTO t VALUES (1)")
    }

    private func names() throws -> Set<String> {
        Set(try FileManager.default.contentsOfDirectory(atPath: directory.path))
    }

    // P20
    @Test("a missing file is an error unless it is asked for", arguments: [OpenOptions.Access.readOnly, .readWrite])
    func missingFile(access: OpenOptions.Access) throws {
        let error = sqliteError { try open("a.db", access) }
        #expect(error?.code == .cannotOpen)
        #expect(
            error?.message == "there is no file \(directory.file("a.db")): check the path, or ask for it to be created")
        #expect(try names() == [])
        let created = try open("a.db", .create)
        try created.execute("CREATE TABLE t(a)")
        #expect(try open("a.db", access).table("t") == [])
    }

    @Test(
        "a missing directory is an error with the remedy",
        arguments: [OpenOptions.Access.readOnly, .readWrite, .create])
    func missingDirectory(access: OpenOptions.Access) {
        let parent = directory.file("none")
        let error = sqliteError { try open("none/a.db", access) }
        #expect(error?.code == .cannotOpen)
        #expect(error?.message == "cannot open \(parent)/a.db: there is no directory \(parent): create it first")
    }

    @Test("a directory is no database, and a file no directory")
    func directories() throws {
        try FileManager.default.createDirectory(atPath: directory.file("d"), withIntermediateDirectories: false)
        let isDirectory = sqliteError { try open("d", .create) }
        #expect(isDirectory?.code == .cannotOpen)
        #expect(isDirectory?.message == "cannot open \(directory.file("d")): it is a directory: name a file in it")
        try Data([1]).write(to: URL(filePath: directory.file("f")))
        let isFile = sqliteError { try open("f/a.db", .create) }
        #expect(isFile?.code == .cannotOpen)
        #expect(isFile?.message == "cannot open \(directory.file("f/a.db")): \(directory.file("f")) is not a directory")
    }

    @Test("a file that is no database is named", arguments: [OpenOptions.Access.readOnly, .readWrite, .create])
    func notADatabase(access: OpenOptions.Access) throws {
        let content = Data(repeating: 0x41, count: 4096)
        try content.write(to: URL(filePath: directory.file("a.txt")))
        let error = sqliteError { try open("a.txt", access) }
        #expect(error?.code == .notADatabase)
        #expect(error?.message == "cannot open \(directory.file("a.txt")): file is not a database")
        #expect(error?.isFatal == true)
        #expect(error?.isRetriable == false)
        #expect(try Data(contentsOf: URL(filePath: directory.file("a.txt"))) == content)
        #expect(try names() == ["a.txt"])
    }

    @Test("an empty file is an empty database")
    func emptyFile() throws {
        try Data().write(to: URL(filePath: directory.file("a.db")))
        #expect(try open("a.db").rows("SELECT * FROM sqlite_schema") == [])
    }

    @Test("opening settles write-ahead mode, syncing and foreign keys")
    func settings() throws {
        let database = try open("a.db", .create)
        #expect(try database.first("PRAGMA journal_mode") == "wal")
        #expect(try database.first("PRAGMA synchronous") == 1)
        #expect(try database.first("PRAGMA foreign_keys") == 1)
        #expect(try database.first("PRAGMA query_only") == 0)
        let options = OpenOptions(synchronous: .full, enforcesForeignKeys: false)
        let other = try Database(path: directory.file("a.db"), options: options)
        #expect(try other.first("PRAGMA synchronous") == 2)
        #expect(try other.first("PRAGMA foreign_keys") == 0)
    }

    @Test("the log stays when the last connection closes")
    func persistentLog() throws {
        try makeStore()
        #expect(try names() == ["a.db", "a.db-wal", "a.db-shm"])
        #expect(Database.companions(of: directory.file("a.db")).allSatisfy { Database.exists($0) })
    }

    @Test("the log stays when the last to close only reads, with nothing left to write back")
    func persistentLogOfReader() throws {
        try makeStore()
        let reader = try open("a.db", .readOnly)
        #expect(try open("a.db").rows("PRAGMA wal_checkpoint(TRUNCATE)") == [[0, 0, 0]])
        #expect(try reader.table("t") == [[1]])
        reader.close()
        #expect(try names() == ["a.db", "a.db-wal", "a.db-shm"])
    }

    @Test("a database in another journal mode stays in it where it is asked to")
    func noLog() throws {
        let options = OpenOptions(access: .create, usesWriteAheadLog: false)
        let database = try Database(path: directory.file("a.db"), options: options)
        try database.execute("CREATE TABLE t(a)")
        #expect(try database.first("PRAGMA journal_mode") == "delete")
        #expect(try names() == ["a.db"])
    }

    @Test("a read-only connection reads what others write, and writes nothing")
    func readOnly() throws {
        try makeStore()
        let writer = try open("a.db")
        let reader = try open("a.db", .readOnly)
        #expect(try reader.table("t") == [[1]])
        try writer.execute("INSERT INTO t VALUES (2)")
        #expect(try reader.table("t") == [[1], [2]])
        for sql in ["INSERT INTO t VALUES (3)", "DELETE FROM t", "CREATE TABLE u(a)", "PRAGMA user_version = 5"] {
            let error = sqliteError { try reader.execute(sql) }
            #expect(error?.code == .readOnly)
            #expect(error?.sql == sql)
        }
        #expect(try reader.table("t") == [[1], [2]])
    }

    @Test("a read-only connection creates no companions, and waits for a writer that does")
    func missingCompanions() throws {
        for missing in [["a.db-wal", "a.db-shm"], ["a.db-wal"], ["a.db-shm"]] {
            try makeStore()
            for name in missing { try FileManager.default.removeItem(atPath: directory.file(name)) }
            let before = try names()
            let error = sqliteError { try open("a.db", .readOnly) }
            #expect(error?.code == .unavailable)
            #expect(error?.isRetriable == true)
            #expect(
                error?.message
                    == "cannot open \(directory.file("a.db")): a writer must open it first: "
                    + "readers do not create its -wal and -shm files")
            #expect(try names() == before)
            for name in before { try FileManager.default.removeItem(atPath: directory.file(name)) }
        }
        try makeStore()
        #expect(try open("a.db", .readOnly).table("t") == [[1]])
    }

    @Test("a read-only connection needs no companions where the database is not in write-ahead mode")
    func readOnlyWithoutLog() throws {
        let options = OpenOptions(access: .create, usesWriteAheadLog: false)
        try Database(path: directory.file("a.db"), options: options).execute("CREATE TABLE t(a)")
        #expect(try open("a.db", .readOnly).table("t") == [])
        #expect(try names() == ["a.db"])
    }

    @Test(
        "a relative path lies in the current directory",
        arguments: [
            ("a.db", "."), ("./a.db", "."), ("/a.db", "/"), ("/x/y/a.db", "/x/y"), ("x/a.db", "x"), ("", "."),
        ])
    func directoryOfPath(path: String, expected: String) {
        #expect(Database.directory(of: path) == expected)
    }

    @Test("a temporary directory is on no network file system")
    func network() {
        #expect(Database.networkFilesystem(of: directory.file("not there")) == nil)
        #expect(Database.networkFilesystem(of: "/proc") == nil)
    }
}
