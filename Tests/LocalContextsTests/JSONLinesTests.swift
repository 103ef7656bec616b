import Foundation
import LocalContexts
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("JSON lines context", .timeLimit(.minutes(3)))
struct JSONLinesTests {
    private static let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, v)"

    private static func store(_ count: Int) async throws -> TemporaryStore {
        let temporary = try await TemporaryStore(schema: schema)
        for number in 0..<count { try await temporary.write("INSERT INTO t(v) VALUES ('v\(number)')") }
        return temporary
    }

    /// The sequences of a file's lines; every one must be whole JSON.
    private static func sequences(_ path: String) throws -> [Int] {
        let text = try String(contentsOfFile: path, encoding: .utf8)
        #expect(text.isEmpty || text.hasSuffix("\n"))
        return try text.split(separator: "\n").map { line in
            let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
            let token = try #require(object?["token"] as? [String: Any])
            return try #require(token["sequence"] as? Int)
        }
    }

    @Test("each transaction is one line in the form of the log command")
    func form() async throws {
        let temporary = try await Self.store(1)
        let path = temporary.directory.file("h.jsonl")
        let context = try JSONLinesContext(path)
        #expect(context.isDurable && !context.canLoad && context.name == "json")
        #expect(try await context.durableToken() == nil)
        let token = try await temporary.store.merge(into: context)
        #expect(try await context.durableToken() == token)
        let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
        let transaction = try #require(try await temporary.store.transaction(2))
        let parts = "\(token)".split(separator: ":")
        let head = "{\"token\":{\"store\":\"\(parts[0])\",\"epoch\":1,\"sequence\":2,\"nonce\":\"\(parts[3])\"}"
        let identity = ",\"author\":\"orders\",\"context\":null,\"origin\":\"\(transaction.origin)\",\"time\":\""
        #expect(lines.count == 2 && lines[1].hasPrefix(head + identity))
        let change =
            "{\"entity\":\"t\",\"op\":\"insert\",\"key\":{\"id\":1},\"before\":null,"
            + "\"after\":{\"id\":1,\"v\":\"v0\"},\"changed\":[]}"
        #expect(lines[1].hasSuffix(",\"entities\":[\"t\"],\"changes\":[\(change)]}"))
    }

    @Test("a batch that comes again adds nothing, to an open context or to a new one")
    func repetition() async throws {
        let temporary = try await Self.store(5)
        let path = temporary.directory.file("h.jsonl")
        let first = try JSONLinesContext(path)
        try await first.merge(temporary.store.batch(pageSize: 3))
        try await first.merge(temporary.store.batch())
        try await first.merge(temporary.store.batch())
        await first.close()
        let second = try JSONLinesContext(path)
        #expect(try await second.durableToken()?.sequence == 6)
        try await second.merge(temporary.store.batch())
        try await temporary.write("DELETE FROM t")
        try await second.merge(temporary.store.batch())
        #expect(try Self.sequences(path) == Array(1...7))
    }

    @Test("a line torn anywhere is cut off, and every transaction has one line in the end", arguments: 0..<40)
    func torn(_ seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        let temporary = try await Self.store(6)
        let path = temporary.directory.file("h.jsonl")
        let context = try JSONLinesContext(path)
        try await temporary.store.merge(into: context)
        await context.close()
        let whole = try Data(contentsOf: URL(filePath: path))
        let cut = Int.random(in: 0...whole.count, using: &random)
        try whole.prefix(cut).write(to: URL(filePath: path))
        let again = try JSONLinesContext(path)
        let token = try await again.durableToken()
        #expect(Int(token?.sequence ?? 0) == whole.prefix(cut).count { $0 == 0x0A })
        try await temporary.store.merge(into: again, after: token)
        #expect(try Data(contentsOf: URL(filePath: path)) == whole)
    }

    @Test("a token behind which there are no lines is kept, and is the one to go on from")
    func skipped() async throws {
        let temporary = try await Self.store(4)
        let path = temporary.directory.file("h.jsonl")
        let context = try JSONLinesContext(path)
        let all = try await temporary.store.batch()
        try await context.merge(HistoryBatch(Array(all.transactions.prefix(2)), through: all.token))
        #expect(try await context.durableToken() == all.token)
        await context.close()
        let again = try JSONLinesContext(path)
        #expect(try await again.durableToken() == all.token)
        try await again.merge(HistoryBatch([], through: all.token))
        try await temporary.write("DELETE FROM t")
        try await again.merge(temporary.store.batch())
        await again.close()
        #expect(try Self.sequences(path) == [1, 2, 6])
        // The lines are newer than the kept token now.
        #expect(try await JSONLinesContext(path).durableToken()?.sequence == 6)
        // Taken away, as by a rotation: what was written is not written again.
        try FileManager.default.removeItem(atPath: path)
        let rotated = try JSONLinesContext(path)
        #expect(try await rotated.durableToken() == all.token)
    }

    @Test("what an attempt that failed has left is overwritten by the next one")
    func failedAttempt() async throws {
        let temporary = try await TemporaryStore(schema: Self.schema)
        let rows = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
        try await temporary.write("\(rows) INSERT INTO t SELECT i, printf('%.50c', 'x') FROM n")
        let path = temporary.directory.file("h.jsonl")
        let context = try JSONLinesContext(path)
        let batch = try await temporary.store.batch()
        // The large transaction's further parts are read from the store while the line is written.
        await temporary.store.close()
        await expectCode(.closed) { try await context.merge(batch) }
        #expect(try await context.durableToken() == nil)
        let opened = try await HistoryStore.openReadOnly(temporary.path)
        try await opened.merge(into: context)
        #expect(try Self.sequences(path) == [1, 2])
    }

    @Test(
        "a file that holds something else is refused and stays as it is",
        arguments: ["hello\n", "hello", "{\"a\":1}\n"])
    func foreign(_ content: String) async throws {
        let directory = try TemporaryDirectory()
        let path = directory.file("h.jsonl")
        try content.write(toFile: path, atomically: false, encoding: .utf8)
        let context = try JSONLinesContext(path)
        await expectCode(.cannotOpen) { _ = try await context.durableToken() }
        #expect(try String(contentsOfFile: path, encoding: .utf8) == content)
    }

    @Test("two writers of one file: the second is told so; lines of another store are refused")
    func conflicts() async throws {
        let temporary = try await Self.store(1)
        let path = temporary.directory.file("h.jsonl")
        let context = try JSONLinesContext(path)
        try await temporary.store.merge(into: context)
        let second = try JSONLinesContext(path)
        await expectCode(.busy) { _ = try await second.durableToken() }
        let other = try await Self.store(1)
        let batch = try await other.store.batch()
        await expectCode(.tokenInvalid) { try await context.merge(batch) }
        #expect(try Self.sequences(path) == [1, 2])
    }

    @Test("a stream gets whole lines; one that was interrupted is told apart from its repetition")
    func stream() async throws {
        signal(SIGPIPE, SIG_IGN)
        let temporary = try await Self.store(3)
        let pipe = Pipe()
        let context = try JSONLinesContext(descriptor: pipe.fileHandleForWriting.fileDescriptor)
        #expect(!context.isDurable)
        try await context.merge(temporary.store.batch(pageSize: 2))
        try await context.merge(temporary.store.batch())
        #expect(try await context.durableToken() == nil)
        try pipe.fileHandleForWriting.close()
        let text = String(decoding: try #require(try pipe.fileHandleForReading.readToEnd()), as: UTF8.self)
        // What is given again although it was not refused comes again: two transactions, then all four.
        #expect(text.split(separator: "\n").count == 6 && text.hasSuffix("\n"))
        let closed = Pipe()
        try closed.fileHandleForReading.close()
        let failing = try JSONLinesContext(descriptor: closed.fileHandleForWriting.fileDescriptor)
        let batch = try await temporary.store.batch()
        await expectCode(.database) { try await failing.merge(batch) }
    }
}
