import Foundation
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("Opening and failing", .timeLimit(.minutes(2)))
struct OpeningTests {
    private static let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, v)"

    private static func openError(_ path: String, create: Bool = false) async -> HistoryError? {
        await #expect(throws: HistoryError.self) { try await HistoryStore.open(path, author: "orders", create: create) }
    }

    @Test("P20: a path that does not exist is an error unless asked to create it")
    func missingFile() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.file("none.db")
        let error = await Self.openError(path)
        #expect(error?.code == .cannotOpen && error?.message.contains(path) == true)
        #expect(!FileManager.default.fileExists(atPath: path))
        let readError = await #expect(throws: HistoryError.self) { try await HistoryStore.openReadOnly(path) }
        #expect(readError?.code == .cannotOpen)
        let store = try await HistoryStore.open(path, author: "orders", create: true)
        await store.close()
        #expect(FileManager.default.fileExists(atPath: path))
    }

    @Test("a missing directory, a directory and a file that is no database are named")
    func wrongPaths() async throws {
        let directory = try TemporaryDirectory()
        let missing = await Self.openError(directory.path + "/none/x.db", create: true)
        #expect(
            missing?.code == .cannotOpen
                && missing?.message.contains("there is no directory \(directory.path)/none") == true)
        let isDirectory = await Self.openError(directory.path, create: true)
        #expect(isDirectory?.code == .cannotOpen && isDirectory?.message.contains("it is a directory") == true)
        let text = directory.file("text.db")
        try String(repeating: "not a database ", count: 100).write(toFile: text, atomically: true, encoding: .utf8)
        for create in [false, true] {
            let error = await Self.openError(text, create: create)
            #expect(error?.code == .notADatabase && error?.isFatal == true)
        }
        #expect(try String(contentsOfFile: text, encoding: .utf8).hasPrefix("not a database"))
        let memory = await Self.openError(":memory:", create: true)
        #expect(memory?.code == .cannotOpen)
    }

    @Test("a database that is no store is an error unless asked to make it one, and keeps its tables")
    func plainDatabase() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.file("plain.db")
        let plain = try await SQLiteConnection.open(
            path, options: OpenOptions(access: .create, usesWriteAheadLog: false))
        try await plain.run {
            try $0.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 'kept')")
        }
        await plain.close()
        let error = await Self.openError(path)
        #expect(error?.code == .notAStore && error?.message.contains("tidings init") == true)
        let store = try await HistoryStore.open(path, author: "orders", create: true)
        #expect(try await store.track(.all)?.sequence == 1)
        #expect(try await store.read { try $0.rows("SELECT * FROM t") } == [[1, "kept"]])
        #expect(try await store.write { try $0.execute("UPDATE t SET v = 'new'") }.token?.sequence == 2)
        await store.close()
    }

    @Test("a database whose own tables have the reserved prefix is refused")
    func reservedPrefix() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.file("own.db")
        let plain = try await SQLiteConnection.open(
            path, options: OpenOptions(access: .create, usesWriteAheadLog: false))
        try await plain.run { try $0.execute("CREATE TABLE history_of_art(id)") }
        await plain.close()
        let error = await Self.openError(path, create: true)
        #expect(error?.code == .notAStore && error?.message.contains("history_of_art") == true)
        let mode = try await SQLiteConnection.open(path, options: OpenOptions(usesWriteAheadLog: false))
            .run { db in try db.first("PRAGMA journal_mode", as: String.self) }
        #expect(mode == "delete")
    }

    @Test("a newer format is refused with the remedy, also by a store that is open already")
    func newerFormat() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        let other = try await SQLiteConnection.open(temporary.path)
        try await other.run { try $0.execute("UPDATE history_store SET format = 2") }
        for error in [
            await Self.openError(temporary.path), await Self.openError(temporary.path, create: true),
            await #expect(throws: HistoryError.self) { try await HistoryStore.openReadOnly(temporary.path) },
            await #expect(throws: HistoryError.self) { try await temporary.write("INSERT INTO t VALUES (1, 1)") },
        ] {
            #expect(error?.code == .unsupportedFormat && error?.message.contains("upgrade") == true)
        }
        try await other.run { try $0.execute("UPDATE history_store SET format = 1") }
        await other.close()
        #expect(try await temporary.write("INSERT INTO t VALUES (1, 1)")?.sequence == 2)
    }

    @Test("a read-only store reads, and refuses to write with the remedy")
    func readOnlyStore() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        try await temporary.write("INSERT INTO t VALUES (1, 1)")
        let reader = try await HistoryStore.openReadOnly(temporary.path)
        #expect(try await reader.count() == 2)
        let error = await #expect(throws: HistoryError.self) {
            try await reader.write { try $0.execute("DELETE FROM t") }
        }
        #expect(error?.code == .readOnly)
        let inside = await #expect(throws: SQLiteError.self) {
            try await temporary.store.read { try $0.execute("DELETE FROM t") }
        }
        #expect(inside?.code == .readOnly)
        await reader.close()
    }

    @Test("a reader without -wal and -shm waits for a writer, creates nothing, and recovers")
    func readerWithoutCompanions() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        await temporary.store.close()
        for suffix in ["-wal", "-shm"] { try? FileManager.default.removeItem(atPath: temporary.path + suffix) }
        let error = await #expect(throws: HistoryError.self) { try await HistoryStore.openReadOnly(temporary.path) }
        #expect(error?.code == .storeUnavailable && error?.isRetriable == true)
        #expect(!FileManager.default.fileExists(atPath: temporary.path + "-shm"))
        let writer = try await HistoryStore.open(temporary.path, author: "orders")
        let reader = try await HistoryStore.openReadOnly(temporary.path)
        #expect(try await reader.count() == 1)
        await reader.close()
        await writer.close()
    }

    @Test("a lock held elsewhere for longer than the timeout is a clear error, and afterwards all is well")
    func lockHeldElsewhere() async throws {
        var options = HistoryStore.Options()
        options.busyTimeout = .milliseconds(300)
        let temporary = try await TemporaryStore(schema: Self.schema, options: options)
        let holder = try ChildProcess(ChildProcess.built("TestWriter"), ["hold", temporary.path])
        var lines = holder.lines.makeAsyncIterator()
        #expect(await lines.next() == "locked")
        let start = ContinuousClock.now
        let error = await #expect(throws: HistoryError.self) {
            try await temporary.write("INSERT INTO t VALUES (1, 1)")
        }
        #expect(ContinuousClock.now - start >= .milliseconds(300))
        #expect(error?.code == .busy && error?.isRetriable == true)
        #expect(error?.message.contains("another connection holds the lock") == true)
        // Readers are not in the way of a writer, nor it in theirs.
        #expect(try await temporary.store.count() == 1)
        try holder.write(line: "let go")
        #expect(await holder.wait() == .exited(0))
        #expect(try await temporary.write("INSERT INTO t VALUES (1, 1)")?.sequence == 2)
    }

    @Test("a full disk is a clear error that leaves nothing half written, and the store usable")
    func fullDisk() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        let error = await #expect(throws: SQLiteError.self) {
            try await temporary.store.write { db in
                let pages = try db.first("PRAGMA page_count", as: Int.self) ?? 0
                try db.execute("PRAGMA max_page_count = \(pages + 2)")
                try db.execute("INSERT INTO t VALUES (1, zeroblob(100000))")
            }
        }
        #expect(error?.code == .full)
        #expect(try await temporary.sequences() == [1])
        // Room for the row, but not for its history.
        let atCommit = await #expect(throws: HistoryError.self) {
            try await temporary.store.write { db in
                let pages = try db.first("PRAGMA page_count", as: Int.self) ?? 0
                try db.execute("PRAGMA max_page_count = \(pages + 30)")
                try db.execute("INSERT INTO t VALUES (2, zeroblob(100000))")
            }
        }
        #expect(atCommit?.code == .diskFull && atCommit?.message.contains("nothing was written") == true)
        #expect(try await temporary.sequences() == [1])
        #expect(try await temporary.store.read { try $0.rows("SELECT id FROM t") } == [])
        try await temporary.store.write { try $0.execute("PRAGMA max_page_count = 1000000") }
        #expect(try await temporary.write("INSERT INTO t VALUES (3, 1)")?.sequence == 2)
    }

    @Test("a closed store says so, and closing twice is harmless")
    func closed() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        await temporary.store.close()
        await temporary.store.close()
        let write = await #expect(throws: HistoryError.self) {
            try await temporary.write("INSERT INTO t VALUES (1, 1)")
        }
        let read = await #expect(throws: HistoryError.self) { try await temporary.store.count() }
        #expect(write?.code == .closed && read?.code == .closed)
    }

    @Test("a store that is closed leaves no descriptor behind")
    func noDescriptorLeaks() async throws {
        func descriptors() throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")
                .compactMap { try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)") }
                .filter { $0.contains("leaktest") }
        }
        let directory = try TemporaryDirectory()
        for _ in 0..<3 {
            let store = try await HistoryStore.open(directory.file("leaktest.db"), author: "a", create: true)
            // Two connections, each with the file, the log and the shared memory.
            #expect(try descriptors().count >= 4)
            await store.close()
        }
        #expect(try descriptors() == [])
    }
}
