import Foundation
import HistoryMessaging
import LocalContexts
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsServices
import TidingsTestKit

@testable import TidingsCommand

/// What proves the demo fails where it must.
@Suite("The demo's proof", .timeLimit(.minutes(2)))
struct DemoProofTests {
    private let fixture: CommandLineFixture
    private let store: HistoryStore
    private var view: String { fixture.directory.file("view.db") }
    private var lines: String { fixture.directory.file("lines.jsonl") }

    /// A store of five transactions, with a view and lines that are in step.
    init() async throws {
        fixture = try CommandLineFixture()
        store = try await HistoryStore.open(fixture.path, author: "setup", create: true)
        try await store.migrate { db in
            try db.execute("CREATE TABLE country(code TEXT PRIMARY KEY NOT NULL, name TEXT)")
            try db.execute("CREATE TABLE script(code TEXT PRIMARY KEY NOT NULL, name TEXT)")
        }
        try await store.track(.all)
        for sql in [
            "INSERT INTO country VALUES ('A', 'Alpha'), ('B', NULL)", "INSERT INTO script VALUES ('L', 'Latin')",
            "UPDATE country SET name = 'Beta' WHERE code = 'B'", "DELETE FROM country WHERE code = 'A'",
        ] {
            try await store.write { db in try db.execute(sql) }
        }
        let head = try await store.currentToken()
        for (name, context) in [
            ("view", try ProjectionContext(view)), ("lines", try JSONLinesContext(lines)),
        ] as [(String, any MergeContext)] {
            let consumer = HistoryConsumer(store, name: name, contexts: [context])
            try await withRunning(consumer) { try await consumer.waitUntilCaughtUp(to: head) }
        }
    }

    private func database() async throws -> DemoProof {
        try await DemoProof.database(view, store, entities: nil)
    }

    private func replayed() async throws -> DemoProof { try await DemoProof.lines(lines, store) }

    /// Changes the view past its consumer.
    private func change(_ sql: String) async throws {
        let connection = try await SQLiteConnection.open(view, options: OpenOptions(access: .readWrite))
        try await connection.run { db in try db.execute(sql) }
        await connection.close()
    }

    /// Changes the lines past their consumer.
    private func change(_ body: (inout [String]) throws -> Void) throws {
        var all = try String(contentsOfFile: lines, encoding: .utf8).split(separator: "\n").map(String.init)
        try #require(all.count == 5)
        try body(&all)
        try Data(all.map { $0 + "\n" }.joined().utf8).write(to: URL(filePath: lines))
    }

    @Test("views that are in step have no difference")
    func equal() async throws {
        #expect(try await database() == DemoProof(rows: 2, differing: []))
        #expect(try await replayed() == DemoProof(rows: 2, differing: []))
    }

    @Test(
        "one row of a view that is altered, gone or too many is one difference",
        arguments: [
            ("UPDATE country SET name = 'beta'", "a row of country is different"),
            ("UPDATE script SET name = NULL", "a row of script is different"),
            ("DELETE FROM script", "a row of script is missing"),
            ("INSERT INTO country VALUES ('A', 'Alpha')", "a row of country is too many"),
        ])
    func row(sql: String, difference: String) async throws {
        try await change(sql)
        #expect(try await database().differing == [difference])
    }

    @Test("one line that is gone is one difference, whatever came of its transaction later", arguments: 1...5)
    func dropped(sequence: Int) async throws {
        try change { $0.remove(at: sequence - 1) }
        #expect(try await replayed().differing == ["transaction \(sequence) is missing"])
    }

    @Test("one line that comes twice is one difference, though rows do not tell it", arguments: 1...5)
    func doubled(sequence: Int) async throws {
        try change { $0.insert($0[sequence - 1], at: sequence) }
        #expect(try await replayed().differing == ["transaction \(sequence) comes again"])
    }

    @Test("lines in another order, and a value in a line that is another one")
    func altered() async throws {
        try change { $0.swapAt(1, 2) }
        #expect(try await replayed().differing == ["transaction 2 is out of place"])
        try change { lines in
            lines.swapAt(1, 2)
            lines[2] = lines[2].replacingOccurrences(of: "Latin", with: "latin")
        }
        #expect(try await replayed().differing == ["a row of script is different: L"])
        try change { $0[2] = "{}" }
        let error = await #expect(throws: CommandError.self) { try await replayed() }
        #expect(error?.message == "\(lines): line 3 is no transaction")
    }

    // MARK: The verdict

    private static func verdict(
        _ differing: [String] = [], published: Int64 = 9, acknowledged: Int64 = 9, purged: Int64 = 8,
        time: Duration = .seconds(120)
    ) -> DemoVerdict {
        let proofs = [
            (view: "replica", proof: DemoProof(rows: 2, differing: [])),
            ("atlas", DemoProof(rows: 2, differing: differing)),
        ]
        return DemoVerdict(
            proofs: proofs, head: 9, published: published, acknowledged: acknowledged, purged: purged, time: time)
    }

    @Test("all that must hold does")
    func proven() throws { try Self.verdict().check() }

    @Test(
        "whatever does not hold is told, and the demo ends with exit code 1",
        arguments: [
            (verdict(["a row of script is missing"]), "1 difference from the store: atlas: a row of script is missing"),
            (
                verdict(["1", "2", "3", "4", "5"]),
                "5 differences from the store: atlas: 1; atlas: 2; atlas: 3; and 2 more"
            ),
            (verdict(published: 8), "not everything was published: 8 of 9 transactions"),
            (verdict(acknowledged: 8, purged: 7), "not everything was acknowledged: 8 of 9 transactions"),
            (verdict(purged: 7), "history was not cleaned up to the oldest acknowledgement: up to 7, not 8"),
            (verdict(purged: 9), "history was not cleaned up to the oldest acknowledgement: up to 9, not 8"),
            (verdict(time: .milliseconds(120_001)), "it took 120.0 s, and may take 120.0 s"),
            (verdict(time: .seconds(121)), "it took 121.0 s, and may take 120.0 s"),
        ])
    func refuted(verdict: DemoVerdict, message: String) {
        let error = #expect(throws: CommandError.self) { try verdict.check() }
        guard let error else { return }
        let ending = TidingsCommand.ending(of: error, in: "demo")
        #expect(ending.code == 1)
        #expect(ending.text == "tidings demo: \(message)")
    }

    // MARK: Lags

    @Test("quantiles are those of the lags that were counted, exactly where a lag is the bound of its class")
    func quantiles() {
        var histogram = LagHistogram()
        #expect(histogram.quantile(0.5) == nil)
        // Bounds of classes, in microseconds: 1.1⁰, 1.1⁷³ and 1.1¹⁴⁵.
        for (microseconds, count) in [(1, 50), (1051, 49), (1_004_475, 1)] as [(Int64, Int)] {
            for _ in 0..<count { histogram.add(microseconds: microseconds) }
        }
        #expect(histogram.total == 100)
        let expected: [(Double, Int64)] = [
            (0.01, 1), (0.5, 1), (0.51, 1051), (0.99, 1051), (0.991, 1_004_475), (1, 1_004_475),
        ]
        for (share, microseconds) in expected {
            #expect(histogram.quantile(share) == .microseconds(microseconds), "\(share)")
        }
        // Half of all, when a second histogram is added, lies in another class.
        var other = LagHistogram()
        other.add(microseconds: -5)
        other.add(microseconds: 1000)
        histogram.add(other)
        #expect(histogram.total == 102)
        #expect(histogram.quantile(0.5) == .microseconds(1))
        #expect(histogram.quantile(0.51) == .microseconds(1051))
    }
}
