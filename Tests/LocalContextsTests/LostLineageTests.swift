import Foundation
import LocalContexts
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

/// History that a context has merged and that was lost afterwards.
@Suite("Contexts after a lost lineage", .timeLimit(.minutes(3)))
struct LostLineageTests {
    /// What a file's lines say of themselves: the sequence, and the nonce's first four digits.
    private static func lines(_ path: String) throws -> [String] {
        let text = try String(contentsOfFile: path, encoding: .utf8)
        #expect(text.isEmpty || text.hasSuffix("\n"))
        return try text.split(separator: "\n").map { line in
            let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
            let token = try #require(object?["token"] as? [String: Any])
            return "\(try #require(token["sequence"])):\((try #require(token["nonce"] as? String)).prefix(4))"
        }
    }

    private static func names(_ transactions: [HistoryTransaction]) -> [String] {
        transactions.map { "\($0.token.sequence):\("\($0.token)".split(separator: ":")[3].prefix(4))" }
    }

    @Test("lines that are moved back go on from there, also when they are opened anew, and miss nothing")
    func movedBack() async throws {
        let fork = try await Fork()
        let path = fork.file("h.jsonl")
        let context = try JSONLinesContext(path)
        try await fork.lost.merge(into: context)
        let before = try Self.lines(path)
        try await context.merge(HistoryBatch([], through: fork.common))
        #expect(try await context.durableToken() == fork.common)
        await context.close()
        let again = try JSONLinesContext(path)
        #expect(try await again.durableToken() == fork.common)
        let news = try await fork.kept.batch(after: fork.common)
        #expect(news.transactions.map(\.token.sequence) == [6, 7, 8, 9])
        try await again.merge(news)
        #expect(try Self.lines(path) == before + Self.names(news.transactions))
        await again.close()
        #expect(try await JSONLinesContext(path).durableToken() == news.token)
    }

    @Test("of what comes again after a move back, only what has no line yet gets one", arguments: [1, 3, 4000])
    func overlap(pageSize: Int) async throws {
        let fork = try await Fork(common: 40)
        let path = fork.file("h.jsonl")
        var context = try JSONLinesContext(path)
        try await fork.lost.merge(into: context)
        let before = try Self.lines(path)
        let oldest = try await fork.kept.oldestToken()
        try await context.merge(HistoryBatch([], through: oldest))
        #expect(try await context.durableToken() == oldest)
        var token = oldest
        while true {
            var request = HistoryRequest(after: token)
            request.pageSize = pageSize
            let fetch = try await fork.kept.fetch(request)
            try await context.merge(HistoryBatch(fetch.transactions, through: fetch.token))
            await context.close()
            context = try JSONLinesContext(path)
            #expect(try await context.durableToken() == fetch.token)
            token = fetch.token
            if fetch.isAtEnd { break }
        }
        let news = try await fork.kept.batch(after: fork.common)
        #expect(try Self.lines(path) == before + Self.names(news.transactions))
    }

    @Test("where the loss began a new epoch, what was not lost is still known by its lines")
    func newEpoch() async throws {
        let fork = try await Fork()
        let path = fork.file("h.jsonl")
        let context = try JSONLinesContext(path)
        let lost = try await fork.lost.merge(into: context)
        let before = try Self.lines(path)
        #expect(try await fork.kept.beginEpoch(afterLosing: lost) == 2)
        let oldest = try await fork.kept.oldestToken()
        try await context.merge(HistoryBatch([], through: oldest))
        await context.close()
        let again = try JSONLinesContext(path)
        #expect(try await again.durableToken() == oldest)
        try await fork.kept.merge(into: again, pageSize: 3)
        let news = try await fork.kept.batch()
        #expect(try Self.lines(path) == before + Self.names(Array(news.transactions.dropFirst(5))))
        #expect(try await again.durableToken() == news.token)
    }

    @Test("a token that is moved back and then on, without lines, is the one to go on from")
    func movedBackAndOn() async throws {
        let fork = try await Fork()
        let path = fork.file("h.jsonl")
        let context = try JSONLinesContext(path)
        try await fork.lost.merge(into: context)
        let all = try await fork.kept.batch(after: fork.common)
        try await context.merge(HistoryBatch([], through: fork.common))
        let sixth = all.transactions[0].token
        try await context.merge(HistoryBatch([], through: sixth))
        await context.close()
        let again = try JSONLinesContext(path)
        #expect(try await again.durableToken() == sixth)
        try await again.merge(all)
        #expect(try Self.lines(path).suffix(3) == Self.names(Array(all.transactions.dropFirst())).suffix(3))
        #expect(try Self.lines(path).count == 8 + 3)
    }

    @Test("history with the same sequences and other nonces is refused without a move back, and no line is written")
    func refusedLines() async throws {
        let fork = try await Fork()
        let path = fork.file("h.jsonl")
        let context = try JSONLinesContext(path)
        let token = try await fork.lost.merge(into: context)
        let before = try Self.lines(path)
        let whole = try await fork.kept.batch()
        await expectCode(.tokenInvalid) { try await context.merge(whole) }
        let news = try await fork.kept.batch(after: fork.common)
        await expectCode(.tokenInvalid) { try await context.merge(news) }
        let equal = Array(news.transactions.prefix(3))
        await expectCode(.tokenInvalid) { try await context.merge(HistoryBatch(equal, through: equal[2].token)) }
        #expect(try await context.durableToken() == token)
        #expect(try Self.lines(path) == before)
    }

    @Test("a stream gets what comes after a lost lineage, and what comes again on purpose")
    func stream() async throws {
        let fork = try await Fork()
        let path = fork.file("stream")
        try Data().write(to: URL(filePath: path))
        let file = try #require(FileHandle(forWritingAtPath: path))
        let context = try JSONLinesContext(descriptor: file.fileDescriptor)
        let old = try await fork.lost.batch()
        try await context.merge(old)
        let news = try await fork.kept.batch(after: fork.common)
        try await context.merge(news)
        try await context.merge(news)
        let expected = Self.names(old.transactions) + Self.names(news.transactions) + Self.names(news.transactions)
        #expect(try Self.lines(path) == expected)
    }

    @Test("a stream that failed within a batch does not repeat what it was given whole")
    func interruptedStream() async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        let rows = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
        try await temporary.write("\(rows) INSERT INTO t SELECT i, printf('%.50c', 'x') FROM n")
        let path = temporary.directory.file("stream")
        try Data().write(to: URL(filePath: path))
        let file = try #require(FileHandle(forWritingAtPath: path))
        let context = try JSONLinesContext(descriptor: file.fileDescriptor)
        let batch = try await temporary.store.batch()
        await temporary.store.close()
        await expectCode(.closed) { try await context.merge(batch) }
        let opened = try await HistoryStore.openReadOnly(temporary.path)
        try await opened.merge(into: context)
        let text = try String(contentsOfFile: path, encoding: .utf8)
        let whole = text.split(separator: "\n").filter { line in
            (try? JSONSerialization.jsonObject(with: Data(line.utf8))) != nil
        }
        #expect(whole.count == 2)
        #expect(text.split(separator: "\n").count == 3)
    }

    @Test("a projection never takes a transaction with its sequence and another nonce for merged")
    func refusedProjection() async throws {
        let fork = try await Fork()
        let path = fork.file("p.db")
        let projection = try ProjectionContext(path)
        let token = try await fork.lost.merge(into: projection)
        let whole = try await fork.kept.batch()
        await expectCode(.tokenInvalid) { try await projection.merge(whole) }
        let news = try await fork.kept.batch(after: fork.common)
        await expectCode(.tokenInvalid) { try await projection.merge(news) }
        #expect(try await projection.durableToken() == token)
        #expect(try await ProjectionContext.difference(from: fork.lost, path: path).isEmpty)
        try await fork.kept.withSnapshot { try await projection.load($0) }
        try await projection.merge(whole)
        #expect(try await ProjectionContext.difference(from: fork.kept, path: path).isEmpty)
    }
}
