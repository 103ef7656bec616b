import PersistentHistory
import Testing
import TidingsTestKit

@Suite("tidings track and untrack", .timeLimit(.minutes(5)))
struct TrackTests {
    private let fixture: CommandLineFixture

    init() async throws {
        fixture = try CommandLineFixture()
        try await fixture.sqlite(
            """
            CREATE TABLE a(id INTEGER PRIMARY KEY); CREATE TABLE "b c"(id INTEGER PRIMARY KEY);
            CREATE VIEW v AS SELECT * FROM a
            """)
        _ = try await fixture.run("init")
    }

    @Test("print the sequence, or - where nothing was new")
    func sequences() async throws {
        expect(try await fixture.run("track", "a"), output: "1\n")
        expect(try await fixture.run("track", "A", "b c"), output: "2\n")
        expect(try await fixture.run("track", "a"), output: "-\n")
        expect(try await fixture.run("track", "--all"), output: "-\n")
        expect(try await fixture.run("untrack", "b c"), output: "3\n")
        expect(try await fixture.run("track", "--all"), output: "4\n")
        expect(try await fixture.run("untrack", "--all"), output: "5\n")
        expect(try await fixture.run("untrack", "--all"), output: "-\n")
        let log = try await fixture.run("log", "--after", "2")
        #expect(
            log.lines.filter { $0.hasPrefix("  ") } == [
                "  * untrack b c(id)", "  * track b c(id)", "  * untrack a(id)", "  * untrack b c(id)",
            ])
        #expect(try await fixture.transaction(1).author == "tidings")
    }

    @Test("PHT1: without tracking a write leaves no history; tracking twice is harmless")
    func switchedOff() async throws {
        expect(try await fixture.run("exec", "--author", "me", "INSERT INTO a VALUES (1)"), output: "-\n")
        expect(try await fixture.run("track", "a"), output: "1\n")
        expect(try await fixture.run("track", "a"), output: "-\n")
        expect(try await fixture.run("exec", "--author", "me", "INSERT INTO a VALUES (2)"), output: "2\n")
        expect(try await fixture.run("untrack", "a"), output: "3\n")
        expect(try await fixture.run("exec", "--author", "me", "INSERT INTO a VALUES (3)"), output: "-\n")
    }

    @Test("track --all tracked nothing because of one table, and did not say how to track the others")
    func allButOne() async throws {
        try await fixture.sqlite("CREATE TABLE x(v)")
        expect(
            try await fixture.run("track", "--all"),
            error: "tidings track: cannot track: table x has no declared primary key, and rowids are not stable: "
                + "give it one (for example id INTEGER PRIMARY KEY), then track it; "
                + "nothing was changed: to track the others, list them by name\n", code: 1)
        expect(try await fixture.run("log", "--count"), output: "0\n")
        expect(try await fixture.run("track", "a", "b c"), output: "1\n")
        let help = try await fixture.run("track", "--help").output
        #expect(help.contains("  --all            every table that exists now, or none where one cannot be\n"))
    }

    @Test("untrack --help promised - for a table that is not tracked, which is an error")
    func untrackHelp() async throws {
        let help = try await fixture.run("untrack", "--help").output.split(whereSeparator: \.isWhitespace)
        let text = help.joined(separator: " ")
        #expect(text.contains("or - where there is nothing that --all could end"))
        #expect(text.contains("A table listed by name that is not tracked is an error, and then none is ended."))
        expect(try await fixture.run("track", "a"), output: "1\n")
        expect(
            try await fixture.run("untrack", "a", "b c"),
            error: "tidings untrack: table b c is not tracked: `tidings info` lists those that are\n", code: 1)
        expect(try await fixture.run("log", "--count"), output: "1\n")
    }

    @Test("what cannot be tracked is named, and then nothing is")
    func obstacles() async throws {
        try await fixture.sqlite("CREATE TABLE x(v)")
        let obstacle =
            "table x has no declared primary key, and rowids are not stable: "
            + "give it one (for example id INTEGER PRIMARY KEY), then track it"
        expect(
            try await fixture.run("track", "a", "x"), error: "tidings track: cannot track: \(obstacle)\n", code: 1)
        expect(
            try await fixture.run("track", "nope"),
            error: "tidings track: there is no table nope: check the name, or create it first\n", code: 1)
        expect(
            try await fixture.run("track", "v"),
            error:
                "tidings track: v is a view table, which has no rows of its own to track: track what it is made of\n",
            code: 1)
        expect(
            try await fixture.run("track", "history_store"),
            error: "tidings track: table history_store cannot be tracked: its name is reserved\n", code: 1)
        expect(
            try await fixture.run("untrack", "a"),
            error: "tidings untrack: table a is not tracked: `tidings info` lists those that are\n", code: 1)
        expect(try await fixture.run("log", "--count"), output: "0\n")
    }
}
