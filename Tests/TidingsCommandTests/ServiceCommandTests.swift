import Foundation
import Glibc
import LocalContexts
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsTestKit

/// The subcommands that work with a broker, as a user runs them.
@Suite(.timeLimit(.minutes(2)))
struct ServiceCommandTests {
    let fixture: CommandLineFixture
    let virtualHost: TestVirtualHost
    let broker: [String]

    init() async throws {
        fixture = try CommandLineFixture()
        try await fixture.prepare()
        virtualHost = try await PrivateBroker.shared().makeVirtualHost()
        let file = fixture.directory.file("broker.url")
        try Data(virtualHost.url.utf8).write(to: URL(filePath: file))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file)
        broker = ["--broker-file", file]
    }

    /// Starts a subcommand that runs until it is told to stop.
    func start(_ subcommand: String, _ arguments: String...) throws -> ChildProcess {
        try ChildProcess(ChildProcess.built("tidings"), [subcommand, fixture.path] + arguments + broker)
    }

    func run(_ subcommand: String, _ arguments: String...) async throws -> FinishedProcess {
        try await CommandLineFixture.run([subcommand, fixture.path] + arguments + broker)
    }

    func exec(_ sql: String...) async throws -> FinishedProcess {
        try await CommandLineFixture.run(["exec", fixture.path, "--author", "shop"] + sql + broker)
    }

    /// Ends a service as Docker does, and expects it to end well.
    func stop(_ process: ChildProcess) async {
        process.send(SIGTERM)
        #expect(await process.wait() == .exited(0))
    }

    @Test func `exec publishes what it commits, and status tells it`() async throws {
        let configuration = try AMQPConfiguration(urls: virtualHost.url, name: "test")
        let messages = try await AMQPConnection.withConnection(configuration) { connection in
            let exchange = AMQPExchange("tidings.history", .topic)
            let binding = AMQPBinding(queue: "seen", exchange: exchange.name, key: "history.main.shop")
            try await connection.declare(
                AMQPTopology(exchanges: [exchange], queues: [AMQPQueue("seen")], bindings: [binding]))
            expect(try await exec("INSERT INTO article VALUES (1, 'Tea', 1)", "DELETE FROM article"), output: "2\n3\n")
            return try await connection.inspect(queue: "seen").messages
        }
        #expect(messages == 2)
        // The tracking, transaction 1, was somebody else's.
        expect(try await run("publish"), output: "3\n")
        let status = try await run("status")
        #expect(status.output.contains("published  up to 3\n"))
        #expect(status.output.contains("consumers  none is registered\n"))
    }

    @Test func `exec commits without the broker, and says who publishes then`() async throws {
        let nobody = "amqp://guest:guest@127.0.0.1:1"
        let run = try await CommandLineFixture.run(
            ["exec", fixture.path, "--author", "shop", "--broker", nobody, "INSERT INTO article VALUES (1, 'Tea', 1)"])
        #expect(run.output == "2\n")
        #expect(run.ending == .exited(0))
        #expect(run.error.hasPrefix("tidings exec: committed, but not published yet (the broker: "))
        #expect(run.error.hasSuffix("; `tidings serve` or `tidings publish` will\n"))
        #expect(!run.error.contains("guest"))
        #expect(try await fixture.transaction(2).author == "shop")
    }

    @Test func `serve and consume keep a database in step, are cleaned after, and end with 0`() async throws {
        let view = fixture.directory.file("view.db")
        let service = try start("serve")
        let consumer = try start("consume", "--author", "shop", "--consumer", "index", "--into", view)
        expect(try await exec("INSERT INTO article VALUES (1, 'Tea', 1), (2, 'Jam', 2)"), output: "2\n")
        expect(
            try await exec("UPDATE article SET title = 'Green tea' WHERE id = 1", "DELETE FROM article WHERE id = 2"),
            output: "3\n4\n")
        let store = try await HistoryStore.openReadOnly(fixture.path)
        let consumers = try await poll {
            try await store.consumers()
        } until: {
            $0.first?.acknowledged?.sequence == 4
        }
        #expect(consumers.map(\.name) == ["index"])
        #expect(consumers.map(\.author) == ["shop"])
        expect(try await run("clean", "--dry-run"), output: "3\n")
        expect(try await run("clean"), output: "3\n")
        expect(try await run("clean"), output: "0\n")
        await stop(consumer)
        await stop(service)
        let difference = try await ProjectionContext.difference(from: store, path: view)
        #expect(difference.entities["article"]?.rows == 1)
        #expect(difference.isEmpty)
        let status = try await run("status", "--json")
        #expect(status.output.contains(#""name":"index","author":"shop","role":"required","state":"active""#))
        #expect(status.output.contains(#""behind":0"#))
    }

    @Test func `clean says who blocks it, and fails`() async throws {
        let cleaning = try await run("clean", "--set", "cleaner.requiredAuthors=shop")
        #expect(cleaning.ending == .exited(1))
        #expect(cleaning.error.contains("shop"))
        #expect(cleaning.output.isEmpty)
    }

    @Test func `consume --once prints what there is as lines, and ends`() async throws {
        expect(try await exec("INSERT INTO article VALUES (1, 'Tea', 1)"), output: "2\n")
        let service = try start("serve")
        let first = try await run("consume", "--author", "shop", "--consumer", "lines", "--json", "--once")
        #expect(first.ending == .exited(0))
        #expect(first.lines.count == 2)
        #expect(first.lines.last?.contains(#""changes":[{"entity":"article","op":"insert","key":{"id":1}"#) == true)
        // The end is acknowledged before it is one.
        let store = try await HistoryStore.openReadOnly(fixture.path)
        _ = try await poll {
            try await store.consumers().first?.acknowledged?.sequence
        } until: {
            $0 == 2
        }
        let second = try await run("consume", "--author", "shop", "--consumer", "lines", "--json", "--once")
        #expect(second.lines.isEmpty)
        await stop(service)
    }

    @Test func `a command that fails gets its batch again, and each transaction once in effect`() async throws {
        expect(try await exec("INSERT INTO article VALUES (1, 'Tea', 1)", "DELETE FROM article"), output: "2\n3\n")
        let output = fixture.directory.file("lines")
        let flag = fixture.directory.file("failed")
        let command =
            "test -e \(flag) || { touch \(flag); exit 1; }; echo \"$TIDINGS_SEQUENCE\" >> \(output); cat > /dev/null"
        let consumer = try await run(
            "consume", "--author", "shop", "--consumer", "hook", "--exec", command, "--once", "--entity", "article",
            "--set", "consumer.firstRetry=10ms")
        #expect(consumer.ending == .exited(0), "\(consumer.error)")
        // After the failure transactions come one by one; the first of them tells of the table itself.
        #expect(try String(contentsOfFile: output, encoding: .utf8) == "1\n2\n3\n")
    }

    @Test func `progress is shown on a terminal, and nowhere else`() async throws {
        expect(try await exec("INSERT INTO article VALUES (1, 'Tea', 1)"), output: "2\n")
        let words = ["$0", "consume", "$1", "--author", "a", "--consumer", "c", "--once", "--into", "$1-view"]
        let line = words.joined(separator: " ")
        let terminal = try await fixture.shell("export TERM=xterm; script -qec \"\(line)\" /dev/null")
        #expect(terminal.ending == .exited(0))
        #expect(terminal.output.contains("\r\u{1B}[K0 transactions merged, loading"), "\(terminal.output)")
        let file = try await fixture.shell(line.replacingOccurrences(of: "c --once", with: "d --once"))
        #expect(file.ending == .exited(0))
        #expect(!file.error.contains("transactions merged"))
    }

    @Test func `consume --once of a command that always fails ends, and fails`() async throws {
        let consumer = try await run(
            "consume", "--author", "shop", "--consumer", "hook", "--exec", "exit 3", "--once",
            "--set", "consumer.firstRetry=10ms", "--set", "consumer.attemptsBeforeStall=2")
        #expect(consumer.ending == .exited(1))
        #expect(consumer.error.contains("tidings consume: the consumer has stalled: "))
        #expect(consumer.error.contains("the command exited with 3"))
    }

    @Test func `consume --json ends where nobody reads`() async throws {
        for number in 1...5 {
            expect(try await exec("INSERT INTO article VALUES (\(number), 'Tea', 1)"), output: "\(number + 1)\n")
        }
        let run = try await fixture.shell(
            "set -o pipefail; $0 consume $1 --author a --consumer c --json | head -1; echo ${PIPESTATUS[0]}")
        #expect(run.lines.count == 2)
        #expect(run.lines.last == "0", "\(run.error)")
    }

    @Test func `evict lets cleaning go on`() async throws {
        expect(try await exec("INSERT INTO article VALUES (1, 'Tea', 1)", "DELETE FROM article"), output: "2\n3\n")
        let store = try await HistoryStore.open(fixture.path, author: "test")
        try await store.register(consumer: "slip", author: "shop")
        try await store.register(consumer: "c", author: "shop")
        try await store.acknowledge(try await store.currentToken(), consumer: "c")
        #expect(try await run("clean").ending == .exited(1))
        expect(
            try await CommandLineFixture.run(["evict", fixture.path, "nobody"]),
            error: "tidings evict: \(fixture.path) has no consumer nobody: there are c, slip\n", code: 1)
        expect(try await CommandLineFixture.run(["evict", fixture.path, "slip"]))
        expect(try await run("clean"), output: "2\n")
        #expect(try await store.consumers().map(\.state) == [.active, .evicted])
    }

    @Test func `a command that hangs is ended when its consumer is told to end`() async throws {
        expect(try await exec("INSERT INTO article VALUES (1, 'Tea', 1)"), output: "2\n")
        let mark = fixture.directory.file("started")
        let consumer = try start(
            "consume", "--author", "shop", "--consumer", "hook", "--exec", "touch \(mark); sleep 1000",
            "--set", "shutdownTimeout=100ms")
        _ = try await poll {
            FileManager.default.fileExists(atPath: mark)
        } until: {
            $0
        }
        await stop(consumer)
    }

    @Test func `tail prints transactions as they are committed`() async throws {
        let tail = try ChildProcess(ChildProcess.built("tidings"), ["tail", fixture.path, "--last", "1"])
        var lines = tail.lines.makeAsyncIterator()
        #expect(await lines.next()?.hasPrefix("1  ") == true)
        #expect(await lines.next() == "  * track article(id, title, score)")
        expect(try await exec("INSERT INTO article VALUES (7, 'Tea', 1)"), output: "2\n")
        #expect(await lines.next()?.hasPrefix("2  ") == true)
        #expect(await lines.next() == "  + article id=7  title: \"Tea\", score: 1.0")
        await stop(tail)
    }

    @Test(arguments: [
        (["--json", "--into", "x"], "say where changes go by one of --json, --exec CMD and --into FILE"),
        (["--output", "x", "--exec", "y"], "--output goes with --json"),
        (["--json", "--from", "tomorrow"], "--from expects snapshot, beginning, now or a token, not tomorrow"),
        (["--json", "--set", "logLevel"], "--set expects KEY=VALUE, such as logLevel=debug"),
    ])
    func `what consume cannot do is told`(arguments: [String], message: String) async throws {
        let run = try await CommandLineFixture.run(
            ["consume", fixture.path, "--author", "shop", "--consumer", "c"] + arguments)
        #expect(run.ending == .exited(2))
        #expect(run.error == "tidings consume: \(message)\nSee `tidings consume --help`.\n")
    }
}

/// Asks until an answer is right: nothing announces what other processes have done. The suite's time limit ends it.
func poll<Value>(
    _ ask: () async throws -> Value, until isRight: (Value) -> Bool
) async throws -> Value {
    while true {
        let value = try await ask()
        if isRight(value) { return value }
        try await Task.sleep(for: .milliseconds(20))
    }
}
