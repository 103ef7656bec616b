import CTidingsSQLite
import Foundation
import PersistentHistory
import Synchronization
import TidingsSQLite

/// Cleaning a long history while somebody writes.
struct PurgeBenchmark {
    let options: BenchmarkOptions

    /// What one cleaning came to.
    private struct Cleaning {
        /// The 99th percentile of the writer's transactions, in microseconds.
        let latency: Double
        let rowsPerSecond: Double
    }

    func run() async throws -> [Measurement] {
        let directory = try ScratchDirectory(in: options.directory)
        let base = directory.file("base.db")
        try await prepare(base)
        var latencies = Pairs()
        var speeds = Pairs()
        for pair in 0..<options.pairs {
            var floor: Cleaning?
            if pair % 2 == 0 { floor = try await clean(directory.copy(base, to: "raw.db")) { try Self.raw($0) } }
            let value = try await clean(directory.copy(base, to: "tracked.db")) { try await Self.library($0) }
            if pair % 2 == 1 { floor = try await clean(directory.copy(base, to: "raw.db")) { try Self.raw($0) } }
            guard let floor else { continue }
            latencies.add(floor: floor.latency, value: value.latency)
            speeds.add(floor: floor.rowsPerSecond, value: value.rowsPerSecond)
        }
        let title = "clean \(options.historyLength) transactions"
        return [
            latencies.measurement("\(title), p99 of a writer, to the same in C", "µs", goal: 1.1),
            speeds.measurement("\(title), speed", "rows/s"),
        ]
    }

    private func prepare(_ path: String) async throws {
        try RawArticles.create(path, rows: 10_000)
        var side = try await TrackedSide(path, rows: 10_000)
        _ = try await side.slice(.insert, 1)
        await side.store.close()
        try SyntheticHistory.lengthen(path, by: options.historyLength)
    }

    private func clean(_ path: String, _ body: (String) async throws -> Void) async throws -> Cleaning {
        let connection = try await SQLiteConnection.open(path)
        let isStopped = StopFlag()
        let writing = Task {
            try await connection.run { database in try Self.write(database, until: isStopped) }
        }
        let time = try await awaitedMicroseconds { try await body(path) }
        isStopped.set()
        let latencies = try await writing.value
        await connection.close()
        return Cleaning(
            latency: Statistics.quantile(0.99, latencies), rowsPerSecond: Double(options.historyLength) / time * 1e6)
    }

    /// Writes one row about every millisecond; the microseconds that each transaction took.
    private static func write(_ database: Database, until isStopped: StopFlag) throws -> [Double] {
        var latencies: [Double] = []
        var workload = ArticleWorkload(rows: 10_001)
        while !isStopped.isSet {
            workload.prepare(.update)
            latencies.append(
                try microseconds { try database.transaction { try workload.write(.update, database) } })
            usleep(1000)
        }
        return latencies
    }

    private static func library(_ path: String) async throws {
        let store = try await HistoryStore.open(path, author: "benchmark")
        try await store.deleteHistory(before: .token(store.currentToken()))
        await store.close()
    }

    /// The same by C functions: chunks of a thousand, their mark in the same transaction, a millisecond between.
    private static func raw(_ path: String) throws {
        let database = try RawDatabase(path)
        let nonce = try database.prepare("SELECT nonce FROM history_transaction WHERE sequence = ?")
        let delete = try database.prepare("DELETE FROM history_transaction WHERE sequence <= ?")
        let mark = try database.prepare(
            "UPDATE history_store SET purged_sequence = ?, purged_nonce = ? WHERE id = 1")
        let newest = try database.integer("SELECT max(sequence) FROM history_transaction")
        var last: Int64 = 0
        while last < newest - 1 {
            last = min(last + 1000, newest - 1)
            try database.begin()
            sqlite3_bind_int64(nonce, 1, last)
            sqlite3_step(nonce)
            sqlite3_bind_int64(mark, 1, last)
            sqlite3_bind_int64(mark, 2, sqlite3_column_int64(nonce, 0))
            sqlite3_reset(nonce)
            sqlite3_bind_int64(delete, 1, last)
            try database.run(delete)
            try database.run(mark)
            try database.commit()
            usleep(1000)
        }
    }
}

/// Tells a thread to stop.
private final class StopFlag: Sendable {
    private let flag = Atomic(false)

    var isSet: Bool { flag.load(ordering: .relaxed) }
    func set() { flag.store(true, ordering: .relaxed) }
}
