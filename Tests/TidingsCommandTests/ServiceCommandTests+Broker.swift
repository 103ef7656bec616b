import Foundation
import Glibc
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

@testable import TidingsCommand

/// What subcommands tell of the broker, and do with it.
extension ServiceCommandTests {
    private struct Status: Decodable {
        struct Queue: Decodable, Hashable {
            let name: String
            let messages: Int?
            let consumers: Int?
        }

        struct Broker: Decodable {
            let endpoint: String
            let error: String?
            let queues: [Queue]
        }

        let broker: Broker?
    }

    private func status() async throws -> Status.Broker {
        let run = try await run("status", "--json")
        #expect(run.ending == .exited(0))
        return try #require(try JSONDecoder().decode(Status.self, from: Data(run.output.utf8)).broker)
    }

    @Test func `status tells what waits in the broker's queues, and who reads`() async throws {
        let own = ["tidings.main.$acks", "tidings.main.$control.cleaner", "tidings.$dead"]
        let before = try await status()
        #expect(before.error == nil)
        #expect(before.queues == own.map { Status.Queue(name: $0, messages: nil, consumers: nil) })
        #expect(before.endpoint.hasSuffix("(virtual host '\(virtualHost.name)')"))
        let service = try start("serve")
        let view = fixture.directory.file("view.db")
        let consumer = try start("consume", "--author", "shop", "--consumer", "index", "--into", view)
        let store = try await HistoryStore.openReadOnly(fixture.path)
        _ = try await poll {
            try await store.consumers().first?.acknowledged?.sequence
        } until: {
            $0 == 1
        }
        let running = try await poll {
            try await status().queues
        } until: {
            $0.prefix(3).allSatisfy { $0.messages == 0 && $0.consumers == 1 }
        }
        #expect(running.map(\.name) == ["tidings.main.index"] + own)
        await stop(consumer)
        await stop(service)
        await store.close()
        expect(try await exec("INSERT INTO article VALUES (1, 'Tea', 1)", "DELETE FROM article"), output: "2\n3\n")
        let after = try await poll {
            try await status().queues.first
        } until: {
            $0?.messages == 2
        }
        #expect(after == Status.Queue(name: "tidings.main.index", messages: 2, consumers: 0))
        let text = try await run("status")
        #expect(text.lines.contains("  tidings.main.index: 2 waiting, nobody reads"))
    }

    @Test func `status without the broker tells what the store knows, and why the broker is silent`() async throws {
        let arguments = ["status", fixture.path, "--broker", "amqp://guest:secret@127.0.0.1:1"]
        let run = try await CommandLineFixture.run(arguments)
        #expect(run.ending == .exited(0) && run.error == "")
        #expect(run.lines.first == "store      \(fixture.path), epoch 1")
        #expect(run.lines.last?.hasPrefix("broker     127.0.0.1:1 (virtual host '/'): ") == true)
        #expect(run.lines.count == 5 && !run.output.contains("secret"), "\(run.output)")
        let json = try await CommandLineFixture.run(arguments + ["--json"])
        let broker = try JSONDecoder().decode(Status.self, from: Data(json.output.utf8)).broker
        #expect(broker?.error?.isEmpty == false)
        #expect(broker?.queues == [])
        let none = try await fixture.run("status")
        #expect(none.lines.last == "broker     none is configured")
    }

    @Test func `tail --json prints what log --json prints, as it is committed`() async throws {
        let tail = try ChildProcess(
            ChildProcess.built("tidings"), ["tail", fixture.path, "--after", "0", "--json", "--op", "insert"])
        var lines = tail.lines.makeAsyncIterator()
        var printed: [String] = []
        for number in [2, 4] as [Int64] {
            let insert = "INSERT INTO article VALUES (\(number), 'Tea', 1)"
            expect(try await exec(insert, "UPDATE article SET score = \(number)"), output: "\(number)\n\(number + 1)\n")
            printed.append(try #require(await lines.next()))
            #expect(printed.last?.contains("\"sequence\":\(number),") == true)
        }
        #expect(printed == (try await fixture.run("log", "--json", "--op", "insert")).lines)
        await stop(tail)
        #expect(await lines.next() == nil)
    }

    @Test func `consume --report counts what was merged, and how long that took`() async throws {
        expect(try await exec("INSERT INTO article VALUES (1, 'Tea', 1)", "DELETE FROM article"), output: "2\n3\n")
        let path = fixture.directory.file("report")
        let consumer = try await run(
            "consume", "--author", "shop", "--consumer", "c", "--json", "--once", "--from", "beginning", "--report",
            path, "--set", "consumer.registrationWait=0s")
        #expect(consumer.ending == .exited(0), "\(consumer.error)")
        #expect(consumer.lines.count == 3)
        let report = try ConsumeReport.read(path)
        #expect(report.sequence == 3)
        #expect(report.lag.total == 3)
        #expect(report.lag.counts.values.reduce(0, +) == 3)
        // Transaction 1 has the time of a test's clock, long ago; the others were merged within the test.
        let shortest = try #require(report.lag.quantile(0.01))
        #expect(shortest > .zero && shortest < .seconds(120))
    }

    @Test func `publish gives up after its timeout, and says how far it came`() async throws {
        let run = try await CommandLineFixture.run(
            ["publish", fixture.path, "--timeout", "1", "--broker", "amqp://guest:guest@127.0.0.1:1"])
        #expect(run.ending == .exited(1))
        #expect(run.output == "")
        #expect(run.error.contains("tidings publish: published 0 of 1 within 1.0 seconds: the broker is "))
        #expect(!run.error.contains("guest"))
    }

    @Test func `publish that is stopped ends in the middle, and tells what is left`() async throws {
        let head: Int64 = 1500
        try await fixture.writing(as: "shop") { store in
            for number in 2...head {
                try await store.write { db in try db.execute("INSERT INTO article(id) VALUES (?)", number) }
            }
        }
        let configuration = try AMQPConfiguration(urls: virtualHost.url, name: "test")
        try await AMQPConnection.withConnection(configuration) { connection in
            let exchange = AMQPExchange("tidings.history", .topic)
            let binding = AMQPBinding(queue: "seen", exchange: exchange.name, key: "history.main.#")
            try await connection.declare(
                AMQPTopology(exchanges: [exchange], queues: [AMQPQueue("seen")], bindings: [binding]))
            // One at a time, and stopped in the middle.
            let error = fixture.directory.file("error")
            let keys = "--set publisher.window=1 --set publisher.drainTimeout=100ms"
            let line = "exec \"$0\" publish \"$1\" --broker-file \"$2\" \(keys) 2> \"$3\""
            let publish = try ChildProcess(
                "/bin/bash", ["-c", line, ChildProcess.built("tidings"), fixture.path, broker[1], error])
            _ = try await poll {
                try await connection.inspect(queue: "seen").messages
            } until: {
                $0 > 0
            }
            let sent = ContinuousClock.now
            publish.send(SIGTERM)
            let (lines, ending) = await publish.output()
            #expect(ending == .exited(0))
            #expect(ContinuousClock.now - sent < .seconds(8))
            let published = try #require(lines.first.flatMap { Int64($0) })
            #expect(lines.count == 1)
            #expect(published > 0 && published < head)
            #expect(try await connection.inspect(queue: "seen").messages >= published)
            #expect(
                try String(contentsOfFile: error, encoding: .utf8).hasSuffix(
                    "tidings publish: stopped: published \(published) of \(head); the rest is left to `tidings serve` or the "
                        + "next `tidings publish`\n"))
            expect(try await run("publish"), output: "\(head)\n")
        }
    }
}
