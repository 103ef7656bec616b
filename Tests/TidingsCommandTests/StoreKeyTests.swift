import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

@testable import TidingsCommand

/// Which database a subcommand works on, and how it opens it.
@Suite("Keys of the store", .timeLimit(.minutes(2)))
struct StoreKeyTests {
    private let fixture: CommandLineFixture

    init() async throws {
        fixture = try CommandLineFixture()
        try await fixture.prepare()
    }

    @Test("every subcommand that has a database takes it from the configuration too")
    func declared() {
        for subcommand in TidingsCommand.subcommands where subcommand.hasDatabase {
            #expect(subcommand.operands.first?.isRequired == false, "\(subcommand.name)")
            let names = Set(subcommand.options.map(\.name))
            #expect(names.isSuperset(of: ["--config", "--set"]), "\(subcommand.name)")
        }
        #expect(
            TidingsCommand.subcommands.filter { !$0.hasDatabase }.map { $0.name } == ["doctor", "config check", "demo"])
    }

    @Test("the configured database is taken where none is named; - says so where more follows")
    func configured() async throws {
        func run(_ words: String..., input: String? = nil) async throws -> FinishedProcess {
            try await CommandLineFixture.run(words + ["--set", "store=\(fixture.path)"], input: input)
        }
        expect(try await run("track", "--all"), output: "-\n")
        expect(try await run("exec", "--author", "me", input: "INSERT INTO article(id) VALUES (1)"), output: "2\n")
        expect(try await run("exec", "-", "--author", "me", "DELETE FROM article"), output: "3\n")
        expect(try await run("log", "--count"), output: "3\n")
        expect(try await run("log", "-", "--count"), output: "3\n")
        #expect(try await run("show", "3").lines.last == "  - article id=1  title: NULL, score: NULL")
        #expect(try await run("info").lines.first == "path: \(fixture.path)")
        #expect(try await run("status").lines.first == "store      \(fixture.path), epoch 1")
        expect(
            try await run("evict", "c"),
            error: "tidings evict: \(fixture.path) has no consumer c: none is registered\n", code: 1)
        expect(try await run("purge", "--before", "2"), output: "1\n")
        expect(try await run("untrack", "-", "article"), output: "4\n")
        expect(
            try await run("init"), output: "\(fixture.path) is already the store \(try await fixture.storeID())\n")
        #expect(try await run("clean", "--dry-run").output == "0\n")
        // The variable does it as well, and the operand goes before both.
        expect(try await fixture.shell("TIDINGS_STORE=$1 $0 log --count"), output: "3\n")
        expect(try await fixture.shell("TIDINGS_STORE=/nowhere/x.db $0 log $1 --count"), output: "3\n")
        expect(
            try await CommandLineFixture.run(["log", fixture.path, "--count", "--set", "store=/nowhere/x.db"]),
            output: "3\n")
    }

    @Test("a configuration that is wrong does not keep anybody from reading a database that is named")
    func wrong() async throws {
        expect(try await fixture.shell("TIDINGS_LOG_LEVEL=loud $0 log $1 --count"), output: "1\n")
        let purge = try await fixture.shell("TIDINGS_LOG_LEVEL=loud $0 purge $1 --before 1")
        #expect(purge.ending == .exited(1))
        #expect(purge.error.hasPrefix("tidings purge: TIDINGS_LOG_LEVEL: logLevel: found 'loud', expected "))
    }

    @Test("synchronous holds for whoever writes, as an author or as Tidings itself", arguments: [nil, "shop"])
    func synchronous(author: String?) async throws {
        func opened(_ words: String...) async throws -> [String] {
            let arguments = try Arguments(
                [fixture.path] + words, operands: [.database], options: ServiceOptions.storeOptions)
            return try await ServiceOptions(arguments).writing(author: author) { ["\($0.synchronous)", $0.author] }
        }
        #expect(try await opened() == ["normal", author ?? "tidings"])
        #expect(try await opened("--set", "synchronous=full") == ["full", author ?? "tidings"])
    }
}
