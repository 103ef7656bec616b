import Foundation
import Glibc
import HistoryMessaging
import LocalContexts
import PersistentHistory
import TidingsAMQP
import TidingsSQLite

/// `consumer crash STORE INDEX STEP COUNT UNTIL [URL]`: merges into a durable file until the sequence UNTIL, unless it ends
/// itself at the COUNTth STEP. `consumer memory STORE`: merges with an observer hook; prints peaks of memory.
/// `consumer resources STORE RUNS [URL]`: starts and stops; prints threads and descriptors before and after.
/// `consumer write STORE`: writes transactions of one row until a line comes on its standard input.
extension TestAgent {
    static func consumer(_ arguments: [String]) async throws {
        guard arguments.count >= 2 else { throw Usage() }
        let rest = Array(arguments.dropFirst(2))
        switch arguments[0] {
        case "crash": try await crash(arguments[1], rest)
        case "memory": try await memory(arguments[1])
        case "resources": try await resources(arguments[1], rest)
        case "write": try await write(arguments[1])
        default: throw Usage()
        }
    }

    private static func crash(_ path: String, _ arguments: [String]) async throws {
        guard arguments.count >= 4, let count = Int(arguments[2]), let until = Int64(arguments[3]) else {
            throw Usage()
        }
        let store = try await HistoryStore.openReadOnly(path)
        let index = try await IndexContext(arguments[0])
        var options = HistoryConsumer.Options()
        options.pageSize = 3
        options.pollIntervalWithoutBroker = .milliseconds(20)
        options.registrationWait = .zero
        if let step = AgentStep(rawValue: arguments[1]) { options.onStep = Ending(at: step, occurrence: count).pass }
        let broker = arguments.count > 4 ? try Broker(urls: arguments[4], storeName: "crash") : .none
        let consumer = HistoryConsumer(store, name: "c", contexts: [index], broker: broker, options: options)
        if broker.configuration != nil {
            // What is merged has been delivered: a delivery of it is unsettled.
            index.wait { [unowned consumer] token in
                let isAtEnd = token?.sequence == until
                let deadline = ContinuousClock.now + .seconds(20)
                while isAtEnd ? consumer.status().broker != .open : consumer.status().counts.deliveries == 0 {
                    if ContinuousClock.now > deadline { exit(3) }
                    try await Task.sleep(for: .milliseconds(1))
                }
            }
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await consumer.run() }
            while consumer.status().token?.sequence != until { try await Task.sleep(for: .milliseconds(1)) }
            // An ending after the acknowledgement comes while it waits here.
            while broker.configuration != nil, consumer.status().acknowledged?.sequence != until {
                try await Task.sleep(for: .milliseconds(1))
            }
            await consumer.stop()
            try await group.waitForAll()
        }
        report("done \(consumer.status().token?.description ?? "")")
    }

    private static func write(_ path: String) async throws {
        let store = try await HistoryStore.open(path, author: "writer")
        let isEnding = Locked(false)
        Thread.detachNewThread {
            _ = readLine()
            isEnding.withLock { $0 = true }
        }
        while !isEnding.withLock({ $0 }) {
            _ = try await store.write { db in try db.execute("INSERT INTO item(v) VALUES ('written meanwhile')") }
        }
        await store.close()
    }

    private static func memory(_ path: String) async throws {
        let store = try await HistoryStore.open(path, author: "reader")
        let index = try await IndexContext(path + "-index")
        var options = HistoryConsumer.Options()
        options.pollIntervalWithoutBroker = .milliseconds(20)
        let consumer = HistoryConsumer(store, name: "c", contexts: [index], options: options)
        await consumer.observe("item", .insert) { group in
            var count = 0
            for try await change in group where change.operation == .insert { count += 1 }
            report("group \(group.count) \(count)")
        }
        report("before \(try memoryPeak())")
        let head = try await store.currentToken()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await consumer.run() }
            try await consumer.waitUntilCaughtUp(to: head)
            await consumer.stop()
            try await group.waitForAll()
        }
        report("after \(try memoryPeak())")
    }

    private static func resources(_ path: String, _ arguments: [String]) async throws {
        let store = try await HistoryStore.open(path, author: "reader")
        let broker = arguments.count > 1 ? try Broker(urls: arguments[1], storeName: "crash") : .none
        let consumer = HistoryConsumer(
            store, name: "c", contexts: [try await IndexContext(path + "-index")], broker: broker)
        let head = try await store.currentToken()
        for number in 0...(Int(arguments[0]) ?? 1) {
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await consumer.run() }
                try await consumer.waitUntilCaughtUp(to: head)
                while broker.configuration != nil, consumer.status().acknowledged != head {
                    try await Task.sleep(for: .milliseconds(1))
                }
                await consumer.stop()
                try await group.waitForAll()
            }
            while await consumer.livingAgents > 0 { try await Task.sleep(for: .milliseconds(1)) }
            // What is started once for the process is there after the first run.
            if number == 0 { report("start \(try await heldInTheEnd())") }
        }
        report("end \(try await heldInTheEnd())")
    }

    /// What is held once threads that nobody needs have ended by themselves.
    private static func heldInTheEnd() async throws -> String {
        try await Task.sleep(for: .seconds(1))
        return try held()
    }

    /// How many threads of Tidings and how many descriptors the process has.
    static func held() throws -> String {
        let files = FileManager.default
        let threads = try files.contentsOfDirectory(atPath: "/proc/self/task").compactMap {
            try? String(contentsOfFile: "/proc/self/task/\($0)/comm", encoding: .utf8)
        }
        let own = threads.filter { name in
            ["token-file", "history-", "amqp-", "sqlite"].contains { name.hasPrefix($0) }
        }
        let descriptors = try files.contentsOfDirectory(atPath: "/proc/self/fd").compactMap {
            try? files.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")
        }
        return "\(own.count) \(descriptors.count)"
    }

    private static func memoryPeak() throws -> Int {
        let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") } ?? ""
        return line.split(whereSeparator: { !$0.isNumber }).first.flatMap { Int($0) } ?? 0
    }

    private static func report(_ line: String) {
        FileHandle.standardOutput.write(Data((line + "\n").utf8))
    }
}

/// Ends the process at a step.
private final class Ending: Sendable {
    private let step: AgentStep
    private let remaining: Locked<Int>

    init(at step: AgentStep, occurrence: Int) {
        self.step = step
        remaining = Locked(occurrence)
    }

    func pass(_ step: AgentStep) {
        guard step == self.step else { return }
        let isLast = remaining.withLock { remaining in
            remaining -= 1
            return remaining == 0
        }
        if isLast { kill(getpid(), SIGKILL) }
    }
}

/// Counts the effects of each transaction in a SQLite file, with its token in one transaction.
private final class IndexContext: MergeContext {
    let name = "index"
    let isDurable = true
    private let connection: SQLiteConnection
    private let waiting = Locked<(@Sendable (HistoryToken?) async throws -> Void)?>(nil)

    init(_ path: String) async throws {
        connection = try await SQLiteConnection.open(path, options: OpenOptions(access: .create))
        try await connection.run { db in
            try db.execute("CREATE TABLE IF NOT EXISTS effect(sequence INTEGER PRIMARY KEY, n INTEGER NOT NULL)")
            try db.execute("CREATE TABLE IF NOT EXISTS place(id INTEGER PRIMARY KEY, token TEXT)")
        }
    }

    /// Has whoever asks for the token wait for something first.
    func wait(for condition: @escaping @Sendable (HistoryToken?) async throws -> Void) {
        waiting.withLock { $0 = condition }
    }

    func durableToken() async throws -> HistoryToken? {
        let token = try await connection.run { db in try db.first("SELECT token FROM place", as: String.self) }
            .flatMap { HistoryToken($0) }
        try await waiting.withLock({ $0 })?(token)
        return token
    }

    func merge(_ batch: HistoryBatch) async throws {
        try await connection.run { db in
            try db.transaction {
                for transaction in batch.transactions {
                    try db.execute(
                        "INSERT INTO effect VALUES (?, 1) ON CONFLICT DO UPDATE SET n = n + 1",
                        transaction.token.sequence)
                }
                try db.execute("INSERT OR REPLACE INTO place VALUES (1, ?)", batch.token.description)
            }
        }
    }
}
