import Foundation
import Glibc
import HistoryMessaging
import PersistentHistory
import TidingsAMQP
import TidingsSQLite

/// Publishers and relays: `TestAgent publisher <mode> <store> <arguments>`, results on standard output, a line each.
///
/// - `publish STORE URL STEP NUMBER WRITES`: writes so many transactions with a publisher beside, and ends when all is
///   published; or at a step's occurrence of that number, by SIGKILL.
/// - `relay STORE URL STEP NUMBER`: relays until standard input ends, or a step ends it.
/// - `leave STORE WRITES`: says that it publishes, writes, and dies without having published.
/// - `large STORE URL ROWS`: publishes one transaction of so many rows, and tells the peaks of memory around that.
extension TestAgent {
    static func publisher(_ arguments: [String]) async throws {
        guard arguments.count >= 2 else { throw Usage() }
        let rest = Array(arguments.dropFirst(2))
        switch arguments[0] {
        case "publish": try await publish(arguments[1], rest)
        case "relay": try await relay(arguments[1], rest)
        case "leave": try await leave(arguments[1], Int(rest[0]) ?? 1)
        case "large": try await publishLarge(arguments[1], url: rest[0], rows: Int(rest[1]) ?? 1)
        default: throw Usage()
        }
    }

    /// Ends the process at a step.
    private static func killer(_ arguments: [String]) -> StepObserver? {
        guard let step = AgentStep(rawValue: arguments[0]), let number = Int(arguments[1]) else { return nil }
        let seen = Locked(0)
        return { current in
            guard current == step else { return }
            let count = seen.withLock { seen in
                seen += 1
                return seen
            }
            if count == number { kill(getpid(), SIGKILL) }
        }
    }

    private static func publish(_ path: String, _ arguments: [String]) async throws {
        let store = try await HistoryStore.open(path, author: "agent")
        var options = HistoryPublisher.Options()
        // Many small batches: more steps to die at.
        options.window = AMQPPublisher.Window(messages: 8)
        options.onStep = killer(Array(arguments[1...]))
        let publisher = HistoryPublisher(store, broker: try Broker(urls: arguments[0]), options: options)
        let writes = Int(arguments[3]) ?? 1
        try await insert(store, writes / 2)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await publisher.run() }
            group.addTask {
                // One after the other: each begins a batch of its own.
                for _ in 0..<4 {
                    try await insert(store, writes / 8)
                    try await publisher.waitUntilPublished(through: try await store.currentToken())
                }
                await publisher.stop()
            }
            while try await group.next() != nil {}
        }
        await store.close()
    }

    private static func insert(_ store: HistoryStore, _ count: Int) async throws {
        for number in 0..<count {
            try await store.write { db in try db.execute("INSERT INTO item(v) VALUES (?)", number) }
        }
    }

    private static func relay(_ path: String, _ arguments: [String]) async throws {
        let store = try await HistoryStore.open(path, author: "relay")
        var options = HistoryRelay.Options()
        options.window = AMQPPublisher.Window(messages: 8)
        options.pollInterval = .milliseconds(20)
        options.grace = .milliseconds(200)
        options.logger = Reporter()
        options.onStep = killer(Array(arguments[1...]))
        let relay = HistoryRelay(store, broker: try Broker(urls: arguments[0]), options: options)
        let isEnding = AsyncStream<Void>.makeStream()
        Thread.detachNewThread {
            while readLine() != nil {}
            isEnding.continuation.finish()
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await relay.run() }
            group.addTask {
                for await _ in isEnding.stream {}
                await relay.stop()
            }
            while try await group.next() != nil {}
        }
        await store.close()
    }

    /// Tells the relay's role.
    private struct Reporter: HistoryLogger {
        func log(_ level: HistoryLogLevel, _ entry: () -> HistoryLogEntry) {
            let message = entry().message
            if message == "active" || message == "waiting" { report(message) }
        }
    }

    private static func leave(_ path: String, _ count: Int) async throws {
        let store = try await HistoryStore.open(path, author: "agent")
        // Nobody listens there: it says that it is alive, and confirms nothing.
        let publisher = HistoryPublisher(store, broker: try Broker(urls: "amqp://127.0.0.1:1"))
        async let run: Void = publisher.run()
        while try await store.read({ db in try db.first("SELECT count(*) FROM history_publisher", as: Int.self) }) == 0
        {
            await Task.yield()
        }
        try await insert(store, count)
        kill(getpid(), SIGKILL)
        try await run
    }

    private static func publishLarge(_ path: String, url: String, rows: Int) async throws {
        let store = try await HistoryStore.open(path, author: "agent")
        let publisher = HistoryPublisher(store, broker: try Broker(urls: url))
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await publisher.run() }
            group.addTask {
                try await insert(store, 1)
                try await publisher.waitUntilPublished(through: try await store.currentToken())
                let before = try peakMemory()
                let token = try await store.write { db in
                    try db.execute(
                        """
                        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
                        INSERT INTO item(v) SELECT 'row number ' || i FROM n
                        """, rows)
                }.token
                let written = try peakMemory()
                if let token { try await publisher.waitUntilPublished(through: token) }
                report("\(before) \(written) \(try peakMemory()) \(await publisher.status().thin)")
                await publisher.stop()
            }
            while try await group.next() != nil {}
        }
    }

    /// The peak of resident memory in KiB, from proc(5).
    private static func peakMemory() throws -> Int {
        let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") } ?? ""
        return line.split(whereSeparator: { !$0.isNumber }).first.flatMap { Int($0) } ?? 0
    }

    private static func report(_ line: String) {
        FileHandle.standardOutput.write(Data((line + "\n").utf8))
    }
}
