import Foundation
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

/// What takes several processes: crashes, contention, memory. One after the other, since each wants the machine.
@Suite("Processes", .serialized, .timeLimit(.minutes(10)))
struct ProcessTests {

    @Test("a writer killed at 200 random moments: data and history agree, and every token handed out is there")
    func killedWriter() async throws {
        let schema =
            "CREATE TABLE item(id INTEGER PRIMARY KEY, v INTEGER, t TEXT); CREATE TABLE total(id INTEGER PRIMARY KEY, n INTEGER)"
        let temporary = try await TemporaryStore(schema: schema)
        let shadow = try await ShadowDatabase.open(schema: schema)
        var random = SeededGenerator(seed: 20)
        var position = try await temporary.store.currentToken()
        var handedOut = 0
        for round in 0..<200 {
            let child = try ChildProcess(
                ChildProcess.built("TestWriter"),
                ["endless", temporary.path, "\(UInt64.random(in: 0...UInt64.max, using: &random))"])
            var tokens: [String] = []
            let enough = Int.random(in: 1...25, using: &random)
            for await line in child.lines {
                tokens.append(line)
                guard tokens.count == enough else { continue }
                Self.spin(microseconds: Int.random(in: 0...1500, using: &random))
                child.send(SIGKILL)
            }
            #expect(await child.wait() == .signalled(SIGKILL))
            handedOut += tokens.count

            let reopened = try await HistoryStore.open(temporary.path, author: "checker")
            var found: Set<String> = []
            for try await transaction in reopened.history(HistoryRequest(after: position)) {
                #expect(transaction.token.sequence == position.sequence + 1)
                try await shadow.apply(transaction)
                position = transaction.token
                found.insert(transaction.token.description)
            }
            #expect(Set(tokens).subtracting(found) == [], "round \(round)")
            // Killed between a commit and its line: one transaction more at the most.
            #expect(found.count - tokens.count <= 1)
            let differences = try await shadow.differences(from: reopened, tables: ["item", "total"])
            try #require(differences == [], "round \(round)")
            await reopened.close()
        }
        let integrity = try await temporary.store.read { try $0.first("PRAGMA integrity_check", as: String.self) }
        #expect(integrity == "ok")
        #expect(handedOut >= 200)
    }

    /// A wait shorter than any timer's: the moment of the kill is meant to be anywhere in a commit.
    private static func spin(microseconds: Int) {
        let end = ContinuousClock.now + .microseconds(microseconds)
        while ContinuousClock.now < end {}
    }

    @Test(
        "P23: four processes writing for 10 s: every commit once, in token order, none starved",
        arguments: ["NORMAL", "FULL"])
    func contention(synchronous: String) async throws {
        let schema = "CREATE TABLE item(id INTEGER PRIMARY KEY, v INTEGER, t TEXT)"
        let temporary = try await TemporaryStore(schema: schema)
        let children = try (0..<4).map {
            try ChildProcess(
                ChildProcess.built("TestWriter"), ["contend", temporary.path, "writer-\($0)", "10", synchronous])
        }
        var iterators = children.map { $0.lines.makeAsyncIterator() }
        for index in iterators.indices { #expect(await iterators[index].next() == "ready") }
        for child in children { try child.write(line: "go") }
        var counts: [Int] = []
        var waits: [Double] = []
        var sequences: [[Int64]] = []
        for index in iterators.indices {
            let summary = try #require(await iterators[index].next()).split(separator: " ")
            counts.append(Int(summary[0]) ?? 0)
            waits.append(Double(summary[1]) ?? .infinity)
            sequences.append((await iterators[index].next() ?? "").split(separator: " ").compactMap { Int64($0) })
            #expect(await children[index].wait() == .exited(0))
        }
        print("contention, \(synchronous): \(counts) transactions, longest waits \(waits.map { Int($0) }) ms")
        // Every commit has one sequence of its own, without holes, and each writer saw its own in order.
        #expect(sequences.map(\.count) == counts)
        #expect(sequences.allSatisfy { $0 == $0.sorted() })
        #expect(sequences.flatMap { $0 }.sorted() == Array(2..<Int64(2 + counts.reduce(0, +))))
        var byAuthor: [String: [Int64]] = [:]
        for try await transaction in temporary.store.transactions() where transaction.token.sequence > 1 {
            byAuthor[transaction.author, default: []].append(transaction.token.sequence)
        }
        #expect(byAuthor == Dictionary(uniqueKeysWithValues: sequences.enumerated().map { ("writer-\($0)", $1) }))
        let rows = try await temporary.store.read { try $0.first("SELECT count(*) FROM item", as: Int.self) }
        #expect(rows == counts.reduce(0, +))
        let mean = Double(counts.reduce(0, +)) / 4
        #expect(Double(counts.min() ?? 0) >= mean / 2)
        #expect((waits.max() ?? .infinity) < 1000)
    }

    @Test(
        "P7, PHT12: a million rows in one transaction take at most 4 MB more than untracked",
        arguments: ["insert", "update", "delete"])
    func memoryOfLargeTransaction(operation: String) async throws {
        let rows = 1_000_000
        let directory = try TemporaryDirectory()
        var growth: [String: Int] = [:]
        for tracking in ["untracked", "tracked"] {
            let path = directory.file("\(tracking).db")
            if operation != "insert" { _ = try await Self.run(path, tracking, rows, "insert") }
            let numbers = try await Self.run(path, tracking, rows, operation)
            #expect(numbers[2] == rows)
            #expect((numbers[3] > 0) == (tracking == "tracked"))
            growth[tracking] = numbers[1] - numbers[0]
        }
        print("memory of 1,000,000 rows, \(operation): \(growth) KiB more than before the transaction")
        #expect(try #require(growth["tracked"]) - #require(growth["untracked"]) <= 4 * 1024)
        let store = try await HistoryStore.openReadOnly(directory.file("tracked.db"))
        let head = try await store.currentToken()
        let transaction = try #require(try await store.transaction(head.sequence))
        #expect(transaction.changeCount == rows)
        var count = 0
        var kinds: Set<HistoryChange.Operation> = []
        for try await change in transaction.changes {
            count += 1
            kinds.insert(change.operation)
        }
        #expect(count == rows)
        #expect(kinds.map(\.rawValue) == [operation])
        await store.close()
        // Once is enough: reading does not depend on the kind of change.
        guard operation == "insert" else { return }
        let reader = try ChildProcess(ChildProcess.built("TestWriter"), ["read", directory.file("tracked.db")])
        let line = try #require((await reader.output()).lines.first)
        let reading = line.split(separator: " ").compactMap { Int($0) }
        print("memory of reading them back: \(reading[1] - reading[0]) KiB")
        #expect(reading[2] == rows && reading[1] - reading[0] <= 8 * 1024)
    }

    /// Peak memory in KiB before and after one large transaction, its changes, and its sequence.
    private static func run(_ path: String, _ tracking: String, _ rows: Int, _ operation: String) async throws -> [Int]
    {
        let child = try ChildProcess(
            ChildProcess.built("TestWriter"), ["memory", path, tracking, "\(rows)", operation])
        let output = await child.output()
        #expect(output.ending == .exited(0))
        return try #require(output.lines.first).split(separator: " ").compactMap { Int($0) }
    }

    @Test("a file system without room for the log is a clear error, and the store usable afterwards")
    func fullFileSystem() async throws {
        let directory = try TemporaryDirectory()
        // The file-size limit of the process stands for the full disk: the kernel refuses the write all the same.
        let child = try ChildProcess(
            "/bin/sh",
            [
                "-c", "trap '' XFSZ; ulimit -f 600; exec \"$0\" \"$@\"", ChildProcess.built("TestWriter"), "fill",
                directory.file("f.db"),
            ])
        let output = await child.output()
        #expect(output.ending == .exited(0))
        #expect(output.lines == ["failed clearly", "written again"])
        let store = try await HistoryStore.open(directory.file("f.db"), author: "after")
        let rows = try await store.read { try $0.first("SELECT count(*) FROM t", as: Int.self) }
        #expect(try await store.count() - 1 == rows)
        await store.close()
    }

    @Test("PHT12: batch insert, update and delete of 100,000 rows in one statement each are in history, row by row")
    func batches() async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE item(id INTEGER PRIMARY KEY, v INTEGER, t TEXT)")
        try await temporary.write(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) INSERT INTO item SELECT i, i, 'row ' || i FROM n"
        )
        try await temporary.write("UPDATE item SET v = v + 1")
        try await temporary.write("DELETE FROM item")
        let shadow = try await ShadowDatabase.open(
            schema: "CREATE TABLE item(id INTEGER PRIMARY KEY, v INTEGER, t TEXT)")
        let transactions = try await temporary.transactions()
        #expect(transactions.map(\.changeCount) == [0, 100_000, 100_000, 100_000])
        var checked = 0
        for try await change in transactions[2].changes {
            let decoded = change.decoded()
            checked += 1
            let expected: HistoryValues = ["v": .integer(Int64(checked + 1))]
            if decoded.key != ["id": .integer(Int64(checked))] || decoded.after != expected { checked = -1_000_000 }
        }
        #expect(checked == 100_000)
        var deleted = 0
        for try await change in transactions[3].changes where change.tombstone?["v"] == .integer(Int64(deleted + 2)) {
            deleted += 1
        }
        #expect(deleted == 100_000)
        for transaction in transactions.dropFirst(1) { try await shadow.apply(transaction) }
        #expect(try await shadow.differences(from: temporary.store, tables: ["item"]) == [])
    }
}
