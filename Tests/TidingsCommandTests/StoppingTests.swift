import Foundation
import Glibc
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

/// SIGTERM and SIGINT end whatever runs long, with exit code 0 and within its bound. None of these needs a broker.
@Suite("Signals end subcommands", .timeLimit(.minutes(2)))
struct StoppingTests {
    private let fixture: CommandLineFixture

    init() async throws {
        fixture = try CommandLineFixture()
        try await fixture.prepare()
    }

    /// What the program writes to its standard error.
    private var error: String { get throws { try String(contentsOfFile: errorPath, encoding: .utf8) } }
    private var errorPath: String { fixture.directory.file("error") }

    /// Starts a line of bash that becomes `tidings`, which is `$0`; the database is `$1`.
    private func start(_ line: String) throws -> ChildProcess {
        let command = "unset ${!TIDINGS_*}; exec \"$0\" \(line) 2> \"$2\""
        return try ChildProcess(
            "/bin/bash", ["-c", command, ChildProcess.built("tidings"), fixture.path, errorPath])
    }

    /// Ends a process that takes signals by now, and expects it to end well.
    private func stop(
        _ process: ChildProcess, by signal: Int32 = SIGTERM, within bound: Duration = .seconds(8)
    ) async {
        let sent = ContinuousClock.now
        process.send(signal)
        #expect(await process.wait() == .exited(0))
        #expect(ContinuousClock.now - sent < bound)
    }

    /// Waits until a process takes SIGTERM itself, as the kernel tells.
    private func untilSignalsAreTaken(by process: ChildProcess) async throws {
        _ = try await poll {
            let status = (try? String(contentsOfFile: "/proc/\(process.processID)/status", encoding: .utf8)) ?? ""
            let line = status.split(separator: "\n").first { $0.hasPrefix("SigCgt:") }
            let mask = line.flatMap {
                UInt64($0.dropFirst("SigCgt:".count).trimmingCharacters(in: .whitespaces), radix: 16)
            }
            return mask ?? 0
        } until: {
            $0 & (1 << UInt64(SIGTERM - 1)) != 0
        }
    }

    @Test(arguments: [SIGTERM, SIGINT])
    func `tail ends behind what it has printed`(signal: Int32) async throws {
        let tail = try start("tail \"$1\" --after 0 --json")
        var lines = tail.lines.makeAsyncIterator()
        #expect(await lines.next()?.hasPrefix(#"{"token":{"#) == true)
        await stop(tail, by: signal)
        #expect(await lines.next() == nil)
        #expect(try error == "")
    }

    @Test func `tail ends within its bound where nobody reads what it prints`() async throws {
        try await fixture.writing(as: "shop") { store in
            try await store.write { db in
                try db.execute("INSERT INTO article(title) VALUES (?)", String(repeating: "x", count: 300_000))
            }
        }
        let pipe = fixture.directory.file("pipe")
        #expect(mkfifo(pipe, 0o600) == 0)
        let reader = open(pipe, O_RDWR)
        defer { close(reader) }
        let tail = try start("tail \"$1\" --after 0 --json --set shutdownTimeout=200ms > \(pipe)")
        // The pipe is full, and holds a part of the line only.
        _ = try await poll {
            var count: Int32 = 0
            #expect(ioctl(reader, UInt(FIONREAD), &count) == 0)
            return count
        } until: {
            $0 > 60_000
        }
        await stop(tail, within: .seconds(5))
    }

    @Test func `clean ends after its write transaction, and tells what is left`() async throws {
        try await fixture.writing(as: "shop") { store in
            for number in 2...2501 {
                try await store.write { db in try db.execute("INSERT INTO article(id) VALUES (?)", number) }
            }
            try await store.register(consumer: "c", author: "shop")
            try await store.acknowledge(try await store.currentToken(), consumer: "c")
        }
        // Nobody can write until the signal has come.
        let other = try await SQLiteConnection.open(fixture.path, options: OpenOptions(access: .readWrite))
        try await other.run { db in try db.execute("BEGIN IMMEDIATE") }
        let clean = try start("clean \"$1\" --set logLevel=info")
        try await untilSignalsAreTaken(by: clean)
        let sent = ContinuousClock.now
        clean.send(SIGTERM)
        _ = try await poll {
            try error
        } until: {
            $0.contains("signal=SIGTERM")
        }
        try await other.run { db in try db.execute("ROLLBACK") }
        await other.close()
        let (lines, ending) = await clean.output()
        #expect(ending == .exited(0))
        #expect(ContinuousClock.now - sent < .seconds(8))
        #expect(lines == ["1000"])
        #expect(try error.hasSuffix("tidings clean: stopped: 1500 transactions are left to the next cleaning\n"))
        expect(try await fixture.run("log", "--count"), output: "1501\n")
        #expect(try await fixture.run("clean", "--json").output.hasPrefix(#"{"removed":1500,"left":0,"#))
    }

    @Test func `clean ends within its bound where somebody keeps the store locked`() async throws {
        try await fixture.writing(as: "shop") { store in
            try await store.write { db in try db.execute("INSERT INTO article(id) VALUES (1)") }
            try await store.register(consumer: "c", author: "shop")
            try await store.acknowledge(try await store.currentToken(), consumer: "c")
        }
        let other = try await SQLiteConnection.open(fixture.path, options: OpenOptions(access: .readWrite))
        try await other.run { db in try db.execute("BEGIN IMMEDIATE") }
        let clean = try start("clean \"$1\" --set shutdownTimeout=200ms")
        try await untilSignalsAreTaken(by: clean)
        await stop(clean, within: .seconds(5))
        try await other.run { db in try db.execute("ROLLBACK") }
        await other.close()
        expect(try await fixture.run("log", "--count"), output: "2\n")
    }

    @Test func `publish ends within its bound while the broker is away, and tells what is left`() async throws {
        let publish = try start("publish \"$1\" --broker amqp://guest:guest@127.0.0.1:1")
        try await untilSignalsAreTaken(by: publish)
        await stop(publish)
        var lines = publish.lines.makeAsyncIterator()
        #expect(await lines.next() == "0")
        #expect(await lines.next() == nil)
        #expect(
            try error.hasSuffix(
                "tidings publish: stopped: published 0 of 1; the rest is left to `tidings serve` or the next "
                    + "`tidings publish`\n"))
        #expect(try !error.contains("guest"))
    }

    @Test func `serve runs the cleaner alone without a broker`() async throws {
        try await fixture.writing(as: "shop") { store in
            try await store.write { db in try db.execute("INSERT INTO article(id) VALUES (1)") }
            try await store.register(consumer: "c", author: "shop")
            try await store.acknowledge(try await store.currentToken(), consumer: "c")
        }
        let serve = try start("serve \"$1\" --set autoStart=cleaner --set cleaner.cleanOnStart=true")
        let store = try await HistoryStore.openReadOnly(fixture.path)
        _ = try await poll {
            try await store.oldestToken().sequence
        } until: {
            $0 == 1
        }
        await stop(serve)
        await store.close()
        #expect(try error.contains("service=serve msg=\"started\""))
        #expect(try error.contains(" services=cleaner\n"))
        for services in ["relay", "relay,cleaner"] {
            expect(
                try await fixture.run("serve", "--set", "autoStart=\(services)"),
                error:
                    "tidings serve: name the broker: by --broker-file FILE, or by TIDINGS_AMQP_URL in the environment\n"
                    + "See `tidings serve --help`.\n", code: 2)
        }
    }
}
