import Foundation
import PersistentHistory
import Synchronization
import Testing
import TidingsSQLite
import TidingsTestKit

/// Random DML over random schemas, replayed from history into an empty shadow database and compared row by row.
///
/// `TIDINGS_MASTER_TRANSACTIONS` sets how many transactions run, `TIDINGS_MASTER_SEED` which ones; `Config/check` has
/// options for both. A failure prints the seed of its world: that seed with one transaction finds it again.
@Suite("Master test")
struct MasterTests {
    private static let transactionsInWorld = 400
    /// How many worlds there are at a time. Each is one chain of awaited steps.
    private static let lanes = 2

    private static var total: Int {
        ProcessInfo.processInfo.environment["TIDINGS_MASTER_TRANSACTIONS"].flatMap { Int($0) } ?? 2000
    }

    private static var seed: UInt64 {
        ProcessInfo.processInfo.environment["TIDINGS_MASTER_SEED"].flatMap { UInt64($0) }
            ?? UInt64.random(in: 0..<1_000_000_000)
    }

    @Test("history replayed into an empty database equals the store, whatever was done to it", .timeLimit(.minutes(15)))
    func replayEqualsStore() async throws {
        let first = Self.seed
        let worlds = max(1, (Self.total + Self.transactionsInWorld - 1) / Self.transactionsInWorld)
        let counts = try await withThrowingTaskGroup(of: MasterWorld.Counts.self) { group in
            for lane in 0..<Self.lanes {
                group.addTask {
                    var counts = MasterWorld.Counts()
                    for index in stride(from: lane, to: worlds, by: Self.lanes) {
                        let world = try await MasterWorld(seed: first + UInt64(index))
                        try await world.run(transactions: Self.transactionsInWorld, counts: &counts)
                    }
                    return counts
                }
            }
            return try await group.reduce(into: MasterWorld.Counts()) { $0.add($1) }
        }
        print("master test: seed \(first), \(counts)")
        // A run in which nothing failed, nothing was rolled back or nothing spilled would prove little.
        #expect(counts.attempted == worlds * Self.transactionsInWorld)
        #expect(counts.committed > counts.attempted / 4)
        #expect(counts.rolledBack > 0 && counts.changes > counts.committed && counts.inChunks > 0)
    }
}

/// One random schema with its store and its shadow.
struct MasterWorld {
    struct Counts {
        var attempted = 0
        var committed = 0
        var rolledBack = 0
        var changes = 0
        var inChunks = 0

        mutating func add(_ other: Counts) {
            attempted += other.attempted
            committed += other.committed
            rolledBack += other.rolledBack
            changes += other.changes
            inChunks += other.inChunks
        }
    }

    private let seed: UInt64
    private var random: SeededGenerator
    private var schema: RandomSchema
    private let directory: TemporaryDirectory
    private let store: HistoryStore
    private let shadow: ShadowDatabase

    init(seed: UInt64) async throws {
        self.seed = seed
        random = SeededGenerator(seed: seed)
        schema = RandomSchema(using: &random)
        directory = try TemporaryDirectory()
        var options = HistoryStore.Options()
        options.spillThreshold = random.pick([64, 150, 400, 256 * 1024])
        store = try await HistoryStore.open(directory.file("w.db"), author: "master", create: true, options: options)
        let sql = schema.tableSQL + schema.triggerSQL
        try await store.migrate { db in try db.execute(sql) }
        var tracking = TrackingOptions()
        tracking.rowImage = random.oneIn(4) ? .full : .changed
        try await store.track(.all, options: tracking)
        shadow = try await ShadowDatabase.open(schema: schema.tableSQL)
    }

    func run(transactions: Int, counts: inout Counts) async throws {
        var world = self
        try await world.runAll(transactions, &counts)
    }

    private mutating func runAll(_ transactions: Int, _ counts: inout Counts) async throws {
        var position = try await store.currentToken()
        var log: [String] = []
        for number in 1...transactions {
            counts.attempted += 1
            if random.oneIn(80) {
                position = try await checkReplay(after: position, &counts, &log, number)
                position = try await addColumn(after: position)
            }
            let (token, statements) = try await write()
            log += statements
            if token == nil { counts.rolledBack += 1 } else { counts.committed += 1 }
            if number % 4 == 0 || number == transactions {
                position = try await checkReplay(after: position, &counts, &log, number)
            }
        }
        await store.close()
    }

    /// Runs one random transaction; nil where it was rolled back or changed nothing.
    private mutating func write() async throws -> (HistoryToken?, [String]) {
        let start = RandomTransaction(tables: schema.tables, random: SeededGenerator(seed: random.next()))
        let log = LogBox()
        do {
            let result = try await store.write(context: "random") { db in
                var transaction = start
                defer { log.set(transaction.log) }
                try transaction.run(db)
            }
            return (result.token, log.lines)
        } catch is RandomTransaction.Abandoned {
            return (nil, log.lines + ["-- abandoned"])
        } catch let error as SQLiteError where error.code == .constraint || error.code == .aborted {
            return (nil, log.lines + ["-- \(error)"])
        } catch let error as HistoryError where error.code == .constraint {
            return (nil, log.lines + ["-- \(error)"])
        }
    }

    private mutating func addColumn(after position: HistoryToken) async throws -> HistoryToken {
        let ddl = schema.addColumn(using: &random)
        let token = try #require(try await store.migrate { db in try db.execute(ddl) }.token)
        #expect(token.sequence == position.sequence + 1)
        try await shadow.execute(ddl)
        return token
    }

    private func checkReplay(
        after position: HistoryToken, _ counts: inout Counts, _ log: inout [String], _ number: Int
    ) async throws -> HistoryToken {
        var position = position
        let place = "seed \(seed), transaction \(number)"
        do {
            for try await transaction in store.history(HistoryRequest(after: position)) {
                #expect(transaction.token.sequence == position.sequence + 1, "\(place)")
                try await shadow.apply(transaction)
                position = transaction.token
                counts.changes += transaction.changeCount
                if !transaction.changes.isInMemory { counts.inChunks += 1 }
            }
            let differences = try await shadow.differences(from: store, tables: schema.tables.map(\.name))
            try #require(differences.isEmpty, "\(place): \(differences)\n\(log.joined(separator: "\n"))")
        } catch {
            print(
                "master test: \(place): \(error)\n\(schema.tableSQL)\(schema.triggerSQL)\(log.joined(separator: ";\n"))"
            )
            throw error
        }
        log = []
        return position
    }
}

/// Carries the log out of a closure that may throw.
private final class LogBox: Sendable {
    private let box = Mutex<[String]>([])
    var lines: [String] { box.withLock { $0 } }
    func set(_ lines: [String]) { box.withLock { $0 = lines } }
}
