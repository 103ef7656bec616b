import HistoryMessaging
import LocalContexts
import PersistentHistory
import Synchronization
import TidingsSQLite

/// A consumer far behind, without a broker: reading, decoding, merging into a closure, the token made durable.
struct CatchUpBenchmark {
    let options: BenchmarkOptions

    func run() async throws -> [Measurement] {
        let directory = try ScratchDirectory(in: options.directory)
        let path = directory.file("articles.db")
        try RawArticles.create(path, rows: 10_000)
        var side = try await TrackedSide(path, rows: 10_000)
        // Inserts, updates and deletes, a third each.
        let each = max(1, options.transactions / 3)
        for operation in RowOperation.allCases { _ = try await side.slice(operation, each) }
        let floor = try RawHistoryScan(path)
        var touched = Pairs()
        var copied = Pairs()
        for pair in 0..<options.pairs + 1 {
            let touchFloor = try floor.run()
            let touch = try await catchUp(side.store, 3 * each, directory) { $0.operation == .update ? 1 : 2 }
            let copyFloor = try floor.run()
            let copy = try await catchUp(side.store, 3 * each, directory) { $0.decoded().key.count }
            // The first pair warms up.
            guard pair > 0 else { continue }
            touched.add(floor: touchFloor / 1000, value: touch / 1000)
            copied.add(floor: copyFloor / 1000, value: copy / 1000)
        }
        await side.store.close()
        let title = "catch up with \(3 * each) transactions, to scanning and decoding in C"
        return [
            touched.measurement(title, "ms", goal: 2),
            copied.measurement("the same, with a copy of every value", "ms"),
        ]
    }

    /// Microseconds from the beginning of `run()` until the token of the newest transaction is durable.
    private func catchUp(
        _ store: HistoryStore, _ count: Int, _ directory: ScratchDirectory,
        _ touch: @escaping @Sendable (HistoryChange) -> Int
    ) async throws -> Double {
        let seen = Seen()
        let context = ClosureContext("touch") { batch in
            var changes = 0
            var sum = 0
            for transaction in batch.transactions {
                try transaction.changes.decode { change in
                    changes += 1
                    sum += touch(change)
                }
            }
            seen.add(changes, sum)
        }
        var consuming = HistoryConsumer.Options()
        consuming.author = "reader"
        consuming.start = .beginning
        consuming.tokenDirectory = directory.path
        // A name of its own each time, and so no token.
        let name = "far-behind-\(UInt64.random(in: 0 ... .max))"
        let consumer = HistoryConsumer(store, name: name, contexts: [context], broker: .none, options: consuming)
        let head = try await store.currentToken()
        let start = MonotonicClock.nanoseconds
        let end = try await Services.run([consumer]) {
            try await consumer.waitUntilCaughtUp(to: head)
            return MonotonicClock.nanoseconds
        }
        guard seen.changes == count else { throw BenchmarkError("merged \(seen.changes) changes of \(count)") }
        return Double(end - start) / 1000
    }

    /// What a context has seen, so that none of the work can be left out.
    private final class Seen: Sendable {
        private let sums = Mutex((changes: 0, sum: 0))

        var changes: Int { sums.withLock { $0.changes } }

        func add(_ changes: Int, _ sum: Int) {
            sums.withLock { sums in
                sums.changes += changes
                sums.sum &+= sum
            }
        }
    }
}
