import Foundation
import LocalContexts
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

/// Contexts in processes of their own that are killed at any instant, and started again.
@Suite("Contexts through crashes", .timeLimit(.minutes(5)))
struct ContextCrashTests {
    /// A store with small transactions, and large ones whose line or rows take a while.
    private static func store() async throws -> TemporaryStore {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        let numbers = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 3000)"
        for round in 0..<8 {
            let first = round * 10000
            try await temporary.write("\(numbers) INSERT INTO t SELECT \(first) + i, printf('%.60c', 'x') FROM n")
            for number in 1...20 { try await temporary.write("UPDATE t SET id = -id WHERE id = \(first + number)") }
            try await temporary.write("UPDATE t SET id = id + 3000 WHERE id > \(first + 2000) AND id < 90000")
        }
        return temporary
    }

    /// Runs the context's process until it ends by itself; it is given more time with each life. Returns the crashes.
    private static func runToEnd(_ kind: String, _ temporary: TemporaryStore, _ file: String, seed: UInt64) async throws
        -> Int
    {
        var random = SeededGenerator(seed: seed)
        for life in 0..<1000 {
            let delay = Int.random(in: 1000...(60_000 + life * 10_000), using: &random)
            let process = try ChildProcess(
                ChildProcess.built("TestContext"), [temporary.path, kind, file, String(min(delay, 999_999))])
            switch await process.wait() {
            case .exited(let code):
                try #require(code == 0)
                return life
            case .signalled(let signal): try #require(signal == SIGALRM)
            }
        }
        return 1000
    }

    @Test("a projection that is killed again and again equals its store in the end", arguments: [1, 2, 3] as [UInt64])
    func projection(_ seed: UInt64) async throws {
        let temporary = try await Self.store()
        let path = temporary.directory.file("p.db")
        let crashes = try await Self.runToEnd("projection", temporary, path, seed: seed)
        #expect(crashes > 2 && crashes < 1000)
        let difference = try await ProjectionContext.difference(from: temporary.store, path: path)
        #expect(difference.isEmpty, "\(difference)")
        #expect(difference.entities["t"]?.rows == 24000)
    }

    @Test(
        "a file of lines whose writer is killed again and again has each transaction once",
        arguments: [1, 2, 3] as [UInt64])
    func lines(_ seed: UInt64) async throws {
        let temporary = try await Self.store()
        let path = temporary.directory.file("h.jsonl")
        let crashes = try await Self.runToEnd("lines", temporary, path, seed: seed)
        #expect(crashes > 2 && crashes < 1000)
        let whole = temporary.directory.file("whole.jsonl")
        try await temporary.store.merge(into: JSONLinesContext(whole))
        #expect(try Data(contentsOf: URL(filePath: path)) == Data(contentsOf: URL(filePath: whole)))
    }
}
