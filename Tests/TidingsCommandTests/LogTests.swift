import Foundation
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("tidings log and show", .timeLimit(.minutes(5)))
struct LogTests {
    private let fixture: CommandLineFixture

    init() throws { fixture = try CommandLineFixture() }

    /// A line that says who and when.
    private func header(_ sequence: Int64, _ who: String, _ time: String) async throws -> String {
        "\(sequence)  \(time)  \(who)  \(try await fixture.transaction(sequence).origin)"
    }

    @Test("a listing for people")
    func readable() async throws {
        try await fixture.prepare()
        try await fixture.writing(as: "me", clock: TestClock(microseconds: 1_700_000_001_000_002)) { store in
            try await store.write(context: "load") { db in
                try db.execute("INSERT INTO article VALUES (1, 'é \"x\"\\', 1), (2, NULL, 0.5)")
            }
            try await store.write { db in
                try db.execute("UPDATE article SET title = x'00ff', score = 9e999 WHERE id = 1")
                try db.execute("UPDATE article SET id = 3 WHERE id = 2; DELETE FROM article WHERE id = 3")
                try db.execute("INSERT INTO article VALUES (4, CAST(x'ff' AS TEXT), 1)")
            }
        }
        let time = "2023-11-14T22:13:21.000002Z"
        let expected = [
            try await header(1, "setup/track", "2023-11-14T22:13:20.000000Z"),
            "  * track article(id, title, score)",
            try await header(2, "me/load", time),
            #"  + article id=1  title: "é \"x\"\\", score: 1.0"#,
            "  + article id=2  title: NULL, score: 0.5",
            try await header(3, "me", time),
            #"  ~ article id=1  title: "é \"x\"\\" → x'00ff', score: 1.0 → inf"#,
            "  ~ article id=2  id: 2 → 3",
            "  - article id=3  title: NULL, score: 0.5",
            "  + article id=4  title: (text of 1 bytes that are not UTF-8), score: 1.0",
        ]
        expect(try await fixture.run("log"), output: expected.map { $0 + "\n" }.joined())
        expect(try await fixture.run("show", "2"), output: expected[2...4].map { $0 + "\n" }.joined())
        expect(
            try await fixture.run("log", "--reverse"),
            output: (expected[5...] + expected[2...4] + expected[...1]).map { $0 + "\n" }.joined())
    }

    @Test("long values are cut, control characters written out, hidden columns named")
    func hostileValues() async throws {
        var options = TrackingOptions()
        options.redactedColumns = ["secret"]
        options.preservedColumns = ["a\nb"]
        try await fixture.prepare(
            "CREATE TABLE t(id TEXT PRIMARY KEY, \"a\nb\", v, secret)", options: options)
        try await fixture.writing(as: "me") { store in
            try await store.write { db in
                try db.execute(
                    "INSERT INTO t VALUES ('k' || char(27) || '[31m', printf('%.300c', 'x'), zeroblob(17), 1)")
                try db.execute("UPDATE t SET secret = 2, v = 1; DELETE FROM t")
            }
        }
        let long = String(repeating: "x", count: 200)
        #expect(
            try await fixture.run("show", "2").lines.dropFirst() == [
                #"  + t id="k\u{1b}[31m"  a\nb: "\#(long)…", v: (blob of 17 bytes), secret: (redacted)"#,
                #"  ~ t id="k\u{1b}[31m"  v: (blob of 17 bytes) → 1, secret: (redacted)"#,
                #"  - t id="k\u{1b}[31m"  a\nb: "\#(long)…""#,
            ])
    }

    @Test("filters")
    func filters() async throws {
        let clock = TestClock()
        try await fixture.prepare(
            """
            CREATE TABLE article(id INTEGER PRIMARY KEY, title TEXT);
            CREATE TABLE tag(name TEXT PRIMARY KEY, n) WITHOUT ROWID;
            CREATE TABLE pair(a TEXT, b INTEGER, PRIMARY KEY(a, b))
            """, clock: clock)
        for (author, sql) in [
            ("me", "INSERT INTO article VALUES (5, 'a'), (6, 'b')"), ("me", "INSERT INTO tag VALUES ('5', 1)"),
            ("you", "UPDATE article SET title = 'z' WHERE id = 5"), ("you", "INSERT INTO pair VALUES ('x,y', 5)"),
            ("they", "DELETE FROM article WHERE id = 6; UPDATE tag SET n = 2"),
        ] {
            clock.advance(by: .seconds(1))
            try await fixture.writing(as: author, clock: clock) { store in
                try await store.write { db in try db.execute(sql) }
            }
        }
        for (options, sequences) in [
            ([], [1, 2, 3, 4, 5, 6]), (["--after", "2"], [3, 4, 5, 6]), (["--after", "6"], []),
            (["--after", "0", "--until", "2"], [1, 2]), (["--until", "0"], []),
            (["--until", "99"], [1, 2, 3, 4, 5, 6]),
            (["--after", "4", "--until", "2"], []), (["--author", "me"], [2, 3]),
            (["--author=me", "--author=they"], [2, 3, 6]), (["--author", "nobody"], []),
            (["--not-author", "me", "--not-author", "setup"], [4, 5, 6]), (["--entity", "tag"], [1, 3, 6]),
            (["--entity", "tag", "--entity", "pair"], [1, 3, 5, 6]), (["--op", "delete"], [6]),
            (["--op", "delete", "--op", "update"], [4, 6]), (["--op", "update", "--entity", "article"], [4]),
            (["--object", "article:5"], [2, 4]), (["--object", "tag:5"], [3, 6]),
            (["--object", "tag:name=5"], [3, 6]),
            (["--object", "pair:a=x,y,b=5"], [5]), (["--object", "pair:b=5,a=x,y"], [5]),
            (["--object", "article:7"], []),
            (["--since", "2023-11-14T22:13:23Z"], [4, 5, 6]), (["--before", "2023-11-14T22:13:23Z"], [1, 2, 3]),
            (["--since=2023-11-14T22:13:21Z", "--before=2023-11-14T23:13:23+01:00"], [2, 3]), (["--since", "1h"], []),
            (["--before", "0s"], [1, 2, 3, 4, 5, 6]), (["--limit", "2"], [1, 2]), (["--limit", "0"], []),
            (["--reverse", "--limit", "2"], [6, 5]), (["--reverse", "--after", "3"], [6, 5, 4]),
        ] as [([String], [Int])] {
            let arguments = ["log", fixture.path] + options
            let json = try await CommandLineFixture.run(arguments + ["--json"])
            let found = try json.lines.map { line in
                let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
                return (object?["token"] as? [String: Any])?["sequence"] as? Int
            }
            #expect(found == sequences && json.ending == .exited(0) && json.error == "", "\(options)")
            expect(try await CommandLineFixture.run(arguments + ["--count"]), output: "\(sequences.count)\n")
        }
        #expect(
            try await fixture.run("log", "--entity", "tag").lines.filter { $0.hasPrefix("  ") } == [
                "  * track tag(name, n)", #"  + tag name="5"  n: 1"#, #"  ~ tag name="5"  n: 1 → 2"#,
            ])
    }

    @Test("filters that name nothing are errors")
    func unknownNames() async throws {
        try await fixture.prepare("CREATE TABLE pair(a, b, PRIMARY KEY(a, b))")
        expect(
            try await fixture.run("log", "--entity", "nope"),
            error: "tidings log: no entity is or was called nope: check the name, or track the table first\n", code: 1)
        expect(
            try await fixture.run("log", "--object", "nope:1"),
            error: "tidings log: \(fixture.path) does not track nope and never did: "
                + "`tidings info` lists what it tracks\n", code: 1)
        expect(
            try await fixture.run("log", "--object", "pair:1"),
            error: "tidings log: --object expects pair:a=…,b=…, since the key has several columns, not pair:1\n"
                + "See `tidings log --help`.\n", code: 2)
        expect(
            try await fixture.run("log", "--after", "7"),
            error: "tidings log: \(fixture.path) has no transaction 7: the newest is 1\n", code: 1)
    }

    @Test("a table with a colon in its name was said not to be tracked")
    func colonInName() async throws {
        try await fixture.prepare(
            """
            CREATE TABLE "x:y"(id INTEGER PRIMARY KEY); CREATE TABLE x(k TEXT PRIMARY KEY);
            CREATE TABLE "url"(k TEXT PRIMARY KEY)
            """)
        _ = try await fixture.run(
            "exec", "--author", "me", "INSERT INTO \"x:y\" VALUES (6)", "INSERT INTO x VALUES ('y:6')",
            "INSERT INTO url VALUES ('http://a:80/')")
        // The longest name wins; the key's column names what the shorter one is to find.
        for (object, text) in [
            ("x:y:6", "+ x:y id=6"), ("X:Y:id=6", "+ x:y id=6"), ("x:k=y:6", #"+ x k="y:6""#),
            ("url:http://a:80/", #"+ url k="http://a:80/""#),
        ] {
            #expect(try await fixture.run("log", "--object", object).lines.dropFirst() == ["  \(text)"], "\(object)")
        }
        expect(
            try await fixture.run("log", "--object", "z:y:6"),
            error: "tidings log: \(fixture.path) does not track z or z:y and never did: "
                + "`tidings info` lists what it tracks\n", code: 1)
    }

    @Test("--object minded the case of names, where track and --entity do not")
    func caseOfNames() async throws {
        try await fixture.prepare("CREATE TABLE Article(Id INTEGER PRIMARY KEY)")
        _ = try await fixture.run("exec", "--author", "me", "INSERT INTO article VALUES (1)")
        for object in ["Article:1", "article:1", "ARTICLE:id=1"] {
            expect(try await fixture.run("log", "--object", object, "--count"), output: "1\n")
        }
        let lines = try await fixture.run("log", "--entity", "ARTICLE").lines.filter { $0.hasPrefix("  ") }
        #expect(lines == ["  * track Article(Id)", "  + Article Id=1"])
    }

    @Test(
        "a key that cannot be one printed nothing, as if the object had no history",
        arguments: ["", "abc", "5.0", "title=Tea", "id=", "id=Tea", "id=5,id=5"])
    func impossibleKey(key: String) async throws {
        try await fixture.prepare()
        expect(
            try await fixture.run("log", "--object", "Article:\(key)"),
            error: "tidings log: --object expects article:N, where N is a whole number, not Article:\(key)\n"
                + "See `tidings log --help`.\n", code: 2)
    }

    @Test("a key that only looks wrong is looked for: text may be anything")
    func unusualKeys() async throws {
        try await fixture.prepare(
            """
            CREATE TABLE tag(name TEXT PRIMARY KEY, v) WITHOUT ROWID;
            CREATE TABLE comp(a INTEGER, b TEXT, PRIMARY KEY(a, b));
            CREATE TABLE odd(id INTEGER PRIMARY KEY DESC)
            """)
        _ = try await fixture.run(
            "exec", "--author", "me",
            "INSERT INTO tag VALUES ('v=x', 1), ('', 2); INSERT INTO comp VALUES (5, 'plain,a=5'), ('x', '')",
            "INSERT INTO odd VALUES ('abc')")
        for object in ["tag:v=x", "tag:", "comp:a=5,b=plain,a=5", "comp:a=x,b=", "odd:abc"] {
            expect(try await fixture.run("log", "--object", object, "--count"), output: "1\n")
        }
    }

    @Test("objects of a table that is gone are found")
    func formerEntity() async throws {
        try await fixture.prepare("CREATE TABLE t(id INTEGER PRIMARY KEY)")
        _ = try await fixture.run("exec", "--author", "me", "INSERT INTO t VALUES (1)", "DROP TABLE t")
        expect(try await fixture.run("log", "--object", "t:1", "--count"), output: "1\n")
    }

    @Test("show says why there is no transaction; log never begins in a gap")
    func gaps() async throws {
        try await fixture.prepare()
        _ = try await fixture.run(
            "exec", "--author", "me", "INSERT INTO article VALUES (1, 'a', 1)", "DELETE FROM article")
        expect(
            try await fixture.run("show", "7"),
            error: "tidings show: \(fixture.path) has no transaction 7: the newest is 3\n", code: 1)
        expect(try await fixture.run("purge", "--before", "3"), output: "2\n")
        expect(
            try await fixture.run("show", "2"),
            error: "tidings show: \(fixture.path) has no transaction 2: it was purged: history begins at 3\n", code: 1)
        for after in [0, 1] {
            expect(
                try await fixture.run("log", "--after", "\(after)"),
                error: "tidings log: \(fixture.path): history after \(after) was purged up to 2: "
                    + "read on with --after 2, and what is missing from the tables themselves\n", code: 1)
        }
        expect(try await fixture.run("log", "--after", "2", "--count"), output: "1\n")
        expect(try await fixture.run("log", "--count"), output: "1\n")
    }
}
