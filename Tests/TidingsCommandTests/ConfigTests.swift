import Foundation
import PersistentHistory
import Testing
import TidingsServices
import TidingsTestKit

@testable import TidingsCommand

@Suite("tidings config check", .timeLimit(.minutes(5)))
struct ConfigTests {
    /// Runs `tidings config check` with these variables alone.
    private func check(_ arguments: [String] = [], _ environment: [String: String] = [:]) async throws
        -> FinishedProcess
    {
        let variables = environment.map { "\($0)=\($1)" }
        return try await FinishedProcess.run(
            "/usr/bin/env", ["-i"] + variables + [ChildProcess.built("tidings"), "config", "check"] + arguments)
    }

    private func file(_ text: String, in directory: TemporaryDirectory) throws -> String {
        let path = directory.file("tidings.json5")
        try Data(text.utf8).write(to: URL(filePath: path))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
        return path
    }

    private static func line(_ key: String, in output: String) -> String? {
        output.split(separator: "\n").first { $0.hasPrefix("\(key) ") }
            .map { $0.split(separator: " ", omittingEmptySubsequences: true).joined(separator: " ") }
    }

    @Test("without anything given, every key has a line with its default")
    func defaults() async throws {
        let run = try await check()
        #expect(run.ending == .exited(0) && run.error == "")
        #expect(run.lines.count == ConfigurationKey.all.count)
        #expect(Self.line("store", in: run.output) == "store (none) default")
        #expect(Self.line("shutdownTimeout", in: run.output) == "shutdownTimeout 8s default")
        #expect(Self.line("autoStart", in: run.output) == "autoStart relay,cleaner default")
        // The columns stand below each other.
        #expect(Set(run.lines.map { $0.count - "  default".count }).count == 1)
        #expect(run.lines.allSatisfy { $0.hasSuffix("  default") })
    }

    @Test("each value is shown with its source, and no password")
    func sources() async throws {
        let directory = try TemporaryDirectory()
        let path = try file(
            "{\n  store: '/data/main.db',\n  broker: { url: 'amqps://me:secret@one/v,amqp://me:secret@two' },\n logLevel: 'debug' }",
            in: directory)
        for (arguments, environment) in [([path], [:]), ([], ["TIDINGS_CONFIG": path])]
            as [([String], [String: String])]
        {
            let run = try await check(
                arguments, environment.merging(["TIDINGS_LOG_LEVEL": "trace", "TIDINGS_AUTHOR": ""]) { $1 })
            #expect(run.ending == .exited(0) && run.error == "" && !run.output.contains("secret"))
            #expect(Self.line("store", in: run.output) == "store /data/main.db \(path):2")
            #expect(Self.line("author", in: run.output) == "author (none) default")
            #expect(Self.line("logLevel", in: run.output) == "logLevel trace TIDINGS_LOG_LEVEL")
            let hosts = "one:5671 (virtual host 'v', TLS), two:5672 (virtual host '/')"
            #expect(Self.line("broker.url", in: run.output) == "broker.url \(hosts) \(path):3")
        }
    }

    @Test("--set goes before the environment, and that before the file: one key given in all three places")
    func order() async throws {
        let directory = try TemporaryDirectory()
        let path = try file("{ logLevel: 'error' }", in: directory)
        let variable = ["TIDINGS_LOG_LEVEL": "trace"]
        let flag = ["--set", "logLevel=debug"]
        for (arguments, environment, line) in [
            ([path], [:], "logLevel error \(path):1"), ([path], variable, "logLevel trace TIDINGS_LOG_LEVEL"),
            ([path] + flag, variable, "logLevel debug command line"), (flag, [:], "logLevel debug command line"),
        ] as [([String], [String: String], String)] {
            let run = try await check(arguments, environment)
            #expect(run.ending == .exited(0) && run.error == "")
            #expect(Self.line("logLevel", in: run.output) == line)
        }
        expect(
            try await check(["--set", "logLevel=loud", "--set", "stroe=x"]),
            error: """
                tidings config check: 2 mistakes:
                  command line: logLevel: found 'loud', expected trace or debug or info or warning or error
                  command line: stroe: no such key: did you mean store?

                """, code: 1)
        let see = "See `tidings config check --help`.\n"
        expect(
            try await check(flag + flag), error: "tidings config check: logLevel is given twice\n\(see)", code: 2)
    }

    @Test("as JSON, values have their types")
    func json() async throws {
        struct Value: Decodable {
            let key: String
            let source: String
            let variable: String
        }
        struct Document: Decodable {
            let ok: Bool
            let file: String?
            let values: [Value]
            let warnings: [String]
        }
        let directory = try TemporaryDirectory()
        let path = try file(
            "{ consumer: { authors: ['a', 'b'], pageSize: 7 }, broker: { url: 'amqp://u:secret@h' } }", in: directory)
        let run = try await check([path, "--json"], ["TIDINGS_PUBLISHER_RELAYS": "true", "TIDINGS_STROE": "x"])
        #expect(run.ending == .exited(0) && run.error == "" && run.lines.count == 1 && !run.output.contains("secret"))
        let document = try JSONDecoder().decode(Document.self, from: Data(run.output.utf8))
        #expect(document.ok && document.file == path)
        #expect(document.values.map(\.key) == ConfigurationKey.all.map(\.path))
        #expect(document.values.map(\.variable) == ConfigurationKey.all.map(\.variable))
        #expect(
            document.warnings == ["TIDINGS_STROE is not a variable of the configuration: did you mean TIDINGS_STORE?"])
        for part in [
            #"{"key":"consumer.authors","value":["a", "b"],"source":"\#(path):1","variable":"TIDINGS_CONSUMER_AUTHORS"}"#,
            #"{"key":"consumer.pageSize","value":7,"#,
            #"{"key":"publisher.relays","value":true,"source":"TIDINGS_PUBLISHER_RELAYS","#,
            #"{"key":"store","value":null,"source":"default","#, #"{"key":"cleaner.users","value":{},"#,
            #"{"key":"broker.url","value":"h:5672 (virtual host '/')","#,
        ] {
            #expect(run.output.contains(part), "\(part)")
        }
    }

    @Test("all mistakes at once, exit code 1")
    func mistakes() async throws {
        let directory = try TemporaryDirectory()
        let path = try file("{\n  stroe: 'x',\n  logLevel: 'loud',\n}", in: directory)
        let environment = ["TIDINGS_CONSUMER_PAGE_SIZE": "many", "TIDINGS_AMQP_URL": "amqp://u:secret@h:port"]
        let level = "found 'loud', expected trace or debug or info or warning or error"
        let port = "the port in the broker URL is not a number from 1 to 65535"
        let size = "found 'many', expected whole number from 1 to 100000"
        let error = """
            tidings config check: 4 mistakes:
              \(path):2: stroe: no such key: did you mean store?
              \(path):3: logLevel: \(level)
              TIDINGS_AMQP_URL: broker.url: \(port)
              TIDINGS_CONSUMER_PAGE_SIZE: consumer.pageSize: \(size)

            """
        expect(try await check([path], environment), error: error, code: 1)
        let document =
            #"{"ok":false,"errors":[{"key":"stroe","code":"unknownKey","place":"\#(path):2","#
            + #""message":"no such key: did you mean store?"},{"key":"logLevel","code":"badValue","place":"\#(path):3","#
            + #""message":"\#(level)"},{"key":"broker.url","code":"badValue","place":"TIDINGS_AMQP_URL","message":"\#(port)"},"#
            + #"{"key":"consumer.pageSize","code":"badValue","place":"TIDINGS_CONSUMER_PAGE_SIZE","message":"\#(size)"}]}"#
        expect(try await check([path, "--json"], environment), output: document + "\n", error: error, code: 1)
    }

    @Test("a missing file, an empty one, a URL in its place")
    func files() async throws {
        expect(
            try await check(["/nope/x"]),
            error: "tidings config check: 1 mistake:\n  /nope/x: there is no such file: check the path\n", code: 1)
        let see = "See `tidings config check --help`.\n"
        expect(
            try await check([""]),
            error: "tidings config check: FILE is empty: leave it out, or name the configuration\n\(see)", code: 2)
        expect(
            try await check(["amqp://u:secret@h"]),
            error: "tidings config check: FILE expects a file, not a URL\n\(see)", code: 2)
        expect(try await check(["a", "b"]), error: "tidings config check: unexpected operand b\n\(see)", code: 2)
    }

    @Test("help names every key and its variable; half a name lists what there is")
    func help() async throws {
        let help = try await check(["--help"])
        #expect(help.ending == .exited(0) && help.error == "")
        #expect(help.output.hasPrefix("usage: tidings config check [FILE] [--set KEY=VALUE]… [--json]\n"))
        for key in ConfigurationKey.all {
            #expect(help.output.contains("\(key.path) ") && help.output.contains(" \(key.variable)\n"))
        }
        let list = "usage:\n  tidings config check …  \(ConfigCheckCommand.summary)\n"
        expect(try await CommandLineFixture.run(["config"]), error: list, code: 2)
        expect(try await CommandLineFixture.run(["config", "chekc"]), error: list, code: 2)
        expect(try await CommandLineFixture.run(["config", "--help"]), output: list)
        #expect(try await CommandLineFixture.run(["--help"]).output.contains("\n  config check  "))
    }
}
