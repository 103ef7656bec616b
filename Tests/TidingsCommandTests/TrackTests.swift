import PersistentHistory
import Testing
import TidingsTestKit

@Suite("tidings track and untrack", .timeLimit(.minutes(2)))
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

    @Test("what cannot be tracked is named, and then nothing is")
    func obstacles() async throws {
        try await fixture.sqlite("CREATE TABLE x(v)")
        let obstacle =
            "table x has no declared primary key, and rowids are not stable: "
            + "give it one (for example id INTEGER PRIMARY KEY), then track it"
        for arguments in [["--all"], ["a", "x"]] {
            expect(
                try await CommandLineFixture.run(["track", fixture.path] + arguments),
                error: "tidings track: cannot track: \(obstacle)\n", code: 1)
        }
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
