import Foundation
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("tidings info and purge", .timeLimit(.minutes(5)))
struct InfoTests {
    private let fixture: CommandLineFixture

    init() throws { fixture = try CommandLineFixture() }

    @Test("PHT1: info names a store that is tracked but not published, its tables and the obstacles")
    func readable() async throws {
        var options = TrackingOptions()
        options.rowImage = .full
        options.redactedColumns = ["secret"]
        try await fixture.prepare("CREATE TABLE a(x, y, secret, PRIMARY KEY(y, x))", options: options)
        try await fixture.writing(as: "setup", clock: TestClock(microseconds: 1_700_000_060_000_000)) { store in
            try await store.migrate { db in
                try db.execute(
                    "CREATE TABLE b(id INTEGER PRIMARY KEY); CREATE TABLE c(v); INSERT INTO a VALUES (1, 2, 3)")
            }
        }
        let run = try await fixture.run("info")
        let info = try await HistoryStore.openReadOnly(fixture.path).info()
        #expect(info.historySize > 0 && info.historySize < 1000 && info.fileSize % 4096 == 0 && info.fileSize > 0)
        expect(
            run,
            output: """
                path: \(fixture.path)
                store: \(try await fixture.storeID())
                format: 1
                epoch: 1
                head: 2
                purged: nothing
                transactions: 2, 2023-11-14T22:13:20.000000Z to 2023-11-14T22:14:20.000000Z
                history size: \(info.historySize) bytes
                file size: \(info.fileSize) bytes
                publishing: off
                tracked:
                  a(x*, y*, secret)  row image full; redacted secret
                not tracked:
                  b
                  c: table c has no declared primary key, and rowids are not stable: give it one \
                (for example id INTEGER PRIMARY KEY), then track it

                """)
    }

    @Test("a store without anything")
    func empty() async throws {
        _ = try await fixture.run("init", "--create")
        let lines = try await fixture.run("info").lines
        #expect(lines[4...6] == ["head: 0", "purged: nothing", "transactions: 0"])
        #expect(lines[9...] == ["publishing: off", "tracked: nothing"])
    }

    @Test("info --json")
    func json() async throws {
        try await fixture.prepare()
        _ = try await fixture.run("exec", "--author", "me", "CREATE TABLE x(v)", "INSERT INTO article(id) VALUES (1)")
        _ = try await fixture.run("purge", "--before", "2")
        let info = try await HistoryStore.openReadOnly(fixture.path).info()
        func token(_ token: HistoryToken) -> String {
            let parts = token.description.split(separator: ":")
            return #"{"store":"\#(parts[0])","epoch":\#(parts[1]),"sequence":\#(parts[2]),"nonce":"\#(parts[3])"}"#
        }
        let output = try await fixture.run("info", "--json")
        let object = try #require(try JSONSerialization.jsonObject(with: Data(output.output.utf8)) as? [String: Any])
        let time = try #require(object["oldest_time"] as? String)
        expect(
            output,
            output: #"{"path":"\#(fixture.path)","store":"\#(try await fixture.storeID())","format":1,"epoch":1,"#
                + #""head":\#(token(info.head)),"purged":\#(token(info.oldest)),"transactions":1,"oldest_time":"\#(time)","#
                + #""newest_time":"\#(time)","history_size":\#(info.historySize),"file_size":\#(info.fileSize),"#
                + #""published":null,"tracked":[{"entity":"article","columns":["id","title","score"],"key":["id"],"#
                + #""row_image":"changed","preserved":null,"excluded":[],"redacted":[]}],"not_tracked":[{"table":"x","#
                + #""obstacle":"table x has no declared primary key, and rowids are not stable: give it one "#
                + #"(for example id INTEGER PRIMARY KEY), then track it"}]}"# + "\n")
    }

    @Test("the size of a long history is estimated closely")
    func estimate() async throws {
        try await fixture.prepare("CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        _ = try await fixture.run("exec", "--author", "me", "INSERT INTO t VALUES (1, 2)")
        // History as it would be after many more transactions like the last one.
        try await fixture.sqlite(
            """
            WITH RECURSIVE n(i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
            INSERT INTO history_transaction SELECT i, nonce, time, author, context, origin, entities, change_count,
                chunk_count, changes FROM n, history_transaction WHERE sequence = 2
            """)
        let store = try await HistoryStore.openReadOnly(fixture.path)
        let exact = try await store.read { db in
            try db.first(
                "SELECT sum(length(changes) + length(entities) + length(author) + length(origin)) FROM history_transaction",
                as: Int.self) ?? 0
        }
        let info = try await store.info()
        #expect(info.transactionCount == 60000 && abs(Int(info.historySize) - exact) < exact / 50)
    }

    @Test("purge prints the true count, and --dry-run deletes nothing")
    func purge() async throws {
        try await fixture.prepare()
        _ = try await fixture.run(
            "exec", "--author", "me", "INSERT INTO article VALUES (1, 'a', 1)", "DELETE FROM article")
        expect(try await fixture.run("purge", "--before", "3", "--dry-run"), output: "2\n")
        expect(try await fixture.run("log", "--count"), output: "3\n")
        expect(try await fixture.run("purge", "--before", "1"), output: "0\n")
        expect(try await fixture.run("purge", "--before", "3"), output: "2\n")
        expect(try await fixture.run("purge", "--before", "3"), output: "0\n")
        expect(try await fixture.run("log", "--count"), output: "1\n")
        expect(try await fixture.run("purge", "--before", "4", "--dry-run"), output: "1\n")
        expect(try await fixture.run("purge", "--before", "4"), output: "1\n")
        let lines = try await fixture.run("info").lines
        #expect(lines[4...6] == ["head: 3", "purged: up to 3", "transactions: 0"])
        expect(try await fixture.run("exec", "--author", "me", "INSERT INTO article(id) VALUES (1)"), output: "4\n")
    }

    @Test("purge --before a number far past the newest transaction deleted everything")
    func purgePastTheEnd() async throws {
        try await fixture.prepare()
        _ = try await fixture.run("exec", "--author", "me", "INSERT INTO article(id) VALUES (1)")
        for more in [[], ["--dry-run"]] {
            for sequence in ["4", "99999"] {
                expect(
                    try await CommandLineFixture.run(["purge", fixture.path, "--before", sequence] + more),
                    error: "tidings purge: --before \(sequence) is past the end: the newest transaction of "
                        + "\(fixture.path) is 2, and --before 3 deletes them all\n", code: 1)
            }
        }
        expect(try await fixture.run("log", "--count"), output: "2\n")
        expect(try await fixture.run("purge", "--before", "3"), output: "2\n")
        expect(try await fixture.run("purge", "--before", "3"), output: "0\n")
    }
}
