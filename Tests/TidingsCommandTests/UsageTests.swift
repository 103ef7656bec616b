import PersistentHistory
import Testing
import TidingsTestKit

@testable import TidingsCommand

@Suite("Usage", .timeLimit(.minutes(5)))
struct UsageTests {
    private static let emptyContext = "--context is empty: leave it out, or name which part of the author writes"

    @Test(
        "every subcommand has its help, on standard output",
        arguments: TidingsCommand.subcommands.map { $0.name })
    func help(name: String) async throws {
        let subcommand = try #require(TidingsCommand.subcommands.first { $0.name == name })
        let words = name.split(separator: " ").map(String.init)
        for arguments in [["--help"], ["x.db", "-h"], ["--wrong", "--help"]] {
            expect(try await CommandLineFixture.run(words + arguments), output: subcommand.help + "\n")
        }
        #expect(subcommand.help.hasPrefix("usage: tidings \(name)\(subcommand.hasDatabase ? " [DB]" : "")"))
        #expect(subcommand.help.contains("\n  DB ") == subcommand.hasDatabase)
        for option in subcommand.options + [.flag("--help", "print this text")] {
            #expect(subcommand.help.contains("\n  \(option.head) "), "\(option.name)")
        }
    }

    @Test("the list names every subcommand but those that only others start; without any it is told on standard error")
    func list() async throws {
        let list = try await CommandLineFixture.run(["--help"])
        #expect(list.ending == .exited(0) && list.error == "")
        for subcommand in TidingsCommand.subcommands {
            let lines = list.lines.filter {
                $0.hasPrefix("  \(subcommand.name) ") && $0.hasSuffix("  \(subcommand.summary)")
            }
            #expect(lines.count == (subcommand.isHidden ? 0 : 1), "\(subcommand.name)")
        }
        #expect(TidingsCommand.subcommands.filter { $0.isHidden }.map { $0.name } == ["demo-import"])
        expect(try await CommandLineFixture.run(["help"]), output: list.output)
        expect(try await CommandLineFixture.run([]), error: list.output, code: 2)
    }

    @Test("help behind -- is an operand")
    func helpAsOperand() async throws {
        let run = try await CommandLineFixture.run(["info", "--", "--help"])
        expect(
            run,
            error: "tidings info: there is no file --help: "
                + "check the path, or create a store with `tidings init DB --create`\n", code: 1)
    }

    @Test(
        "what cannot be understood is a usage error that says what was expected",
        arguments: [
            (["log"], "DB is missing: name the store's database file, or set the key store of the configuration"),
            (["info", "x.db", "y.db"], "unexpected operand y.db"),
            (["log", "x.db", "--wrong"], "unknown option --wrong: what is none but begins with a dash goes behind --"),
            (["log", "x.db", "-n"], "unknown option -n: what is none but begins with a dash goes behind --"),
            (["log", "x.db", "--limit"], "--limit expects N: at most so many transactions"),
            (["log", "x.db", "--limit", "-1"], "--limit expects a whole number from 0 on, not -1"),
            (["log", "x.db", "--after", "x"], "--after expects a whole number from 0 on, not x"),
            (["log", "x.db", "--until", "1e3"], "--until expects a whole number from 0 on, not 1e3"),
            (["log", "x.db", "--limit", "1", "--limit", "2"], "--limit is given twice"),
            (["log", "x.db", "--count=1"], "--count takes no value"),
            (["log", "x.db", "--op", "move"], "--op expects insert, update or delete, not move"),
            (["log", "x.db", "--object", "article"], "--object expects ENTITY:KEY, such as article:5, not article"),
            (
                ["log", "x.db", "--since", "yesterday"],
                "--since expects a time such as 2026-11-30T12:00:00Z, or an age such as 7d, 12h, 30m or 45s, not yesterday"
            ),
            (["exec", "x.db", "SELECT 1"], "--author NAME is required: who writes"),
            (["track", "x.db"], "name the tables, or say --all"),
            (["untrack", "x.db"], "name the tables, or say --all"),
            (["track", "x.db", "t", "--all"], "--all and names of tables exclude each other"),
            (["purge", "x.db"], "--before N is required: the first sequence that stays"),
            (["purge", "x.db", "--before", "0"], "--before expects a whole number from 1 on, not 0"),
            (["exec", "x.db", "--author", "a", "--context", ""], Self.emptyContext),
            (["exec", "x.db", "--author", "a", "--context", " "], Self.emptyContext),
            (["show"], "N is missing: the transaction's sequence"),
            (["show", "x.db"], "N expects a whole number from 1 on, not x.db"),
            (["show", "x.db", "x"], "N expects a whole number from 1 on, not x"),
        ])
    func mistakes(arguments: [String], message: String) async throws {
        let name = arguments[0]
        expect(
            try await CommandLineFixture.run(arguments),
            error: "tidings \(name): \(message)\nSee `tidings \(name) --help`.\n", code: 2)
    }

    @Test(
        "an empty path was called a missing file, with a remedy that was then refused",
        arguments: [
            ["init"], ["init", "--create"], ["track", "t"], ["untrack", "t"], ["exec", "--author", "a"], ["log"],
            ["show", "1"], ["info"], ["purge", "--before", "1"],
        ])
    func emptyPath(arguments: [String]) async throws {
        for (path, message) in [
            ("", "DB is empty: give the path of the store's database file"),
            (":memory:", "DB must be a file: history in memory could be shared with nobody"),
        ] {
            expect(
                try await CommandLineFixture.run([arguments[0], path] + arguments.dropFirst()),
                error: "tidings \(arguments[0]): \(message)\nSee `tidings \(arguments[0]) --help`.\n", code: 2)
        }
    }

    @Test(
        "help and errors named Swift calls, which nobody can type",
        arguments: TidingsCommand.subcommands.filter { $0.hasDatabase && !$0.isHidden }.map { $0.name })
    func noSwift(name: String) async throws {
        let fixture = try CommandLineFixture()
        let more = [
            "track": ["t"], "untrack": ["t"], "exec": ["--author", "a"], "show": ["1"], "purge": ["--before", "1"],
            "evict": ["c"],
            "serve": ["--broker", "amqp://127.0.0.1:1"], "publish": ["--broker", "amqp://127.0.0.1:1"],
            "consume": ["--author", "a", "--consumer", "c", "--json"],
        ]
        let arguments = [name, fixture.path] + (more[name] ?? [])
        let run = try await CommandLineFixture.run(arguments)
        #expect(run.ending == .exited(1) && run.error.hasPrefix("tidings \(name): there is no file \(fixture.path): "))
        #expect(run.error.contains("check the path, or create") && run.error.contains("--create"), "\(run.error)")
        try await fixture.sqlite("CREATE TABLE t(id INTEGER PRIMARY KEY)")
        guard name != "init" else { return }
        expect(
            try await CommandLineFixture.run(arguments),
            error: "tidings \(name): \(fixture.path) is a database but not a Tidings store: "
                + "make it one with `tidings init DB`\n", code: 1)
    }

    @Test("what an option of the library would mend is told in words of the command")
    func translated() {
        #expect(
            CommandError.text(of: HistoryError(.busy, "raise the busy timeout"), in: "a.db")
                == "a.db: another connection holds the lock; run it again when it is done")
        #expect(
            CommandError.text(of: HistoryError(.networkFilesystem, "set allowsNetworkFilesystem"), in: "a.db")
                == "a.db lies on a network file system, where write-ahead logging does not work: "
                + "move it to a local disk")
    }

    @Test("an unknown subcommand is a usage error")
    func unknownSubcommand() async throws {
        expect(
            try await CommandLineFixture.run(["nope"]),
            error: "tidings: there is no subcommand nope: `tidings --help` lists them\n", code: 2)
    }

    @Test("a word that is not UTF-8 is refused, not repaired")
    func malformedWord() async throws {
        let fixture = try CommandLineFixture()
        try await fixture.prepare()
        let run = try await fixture.shell(
            #""$0" exec "$1" --author me $'INSERT INTO article(title) VALUES (\'\xff\')'"#)
        expect(
            run,
            error: "tidings exec: word 5 of the command line is not valid UTF-8: convert it first\n"
                + "See `tidings exec --help`.\n", code: 2)
        expect(try await fixture.run("log", "--count"), output: "1\n")
    }
}
