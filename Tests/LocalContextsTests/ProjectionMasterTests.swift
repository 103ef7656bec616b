import Foundation
import LocalContexts
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

/// Random DML over random schemas, given to a projection in batches of random size, again and again, by contexts that
/// are opened anew: the projection must equal the store whenever it has caught up.
///
/// `TIDINGS_MASTER_TRANSACTIONS` and `TIDINGS_MASTER_SEED` work as for the master test of the history itself, of whose
/// transactions it takes a fifth: each costs it more.
@Suite("Projection master test")
struct ProjectionMasterTests {
    private static let transactionsInWorld = 250

    @Test("a projection equals its store, whatever was done to it and however it was merged", .timeLimit(.minutes(15)))
    func projectionEqualsStore() async throws {
        let environment = ProcessInfo.processInfo.environment
        let total = (environment["TIDINGS_MASTER_TRANSACTIONS"].flatMap { Int($0) } ?? 2000) / 5
        let first =
            environment["TIDINGS_MASTER_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0..<1_000_000_000)
        var counts = ProjectionWorld.Counts()
        for index in 0..<max(1, total / Self.transactionsInWorld) {
            var world = try await ProjectionWorld(seed: first + UInt64(index))
            try await world.run(Self.transactionsInWorld, &counts)
        }
        print("projection master test: seed \(first), \(counts)")
        #expect(counts.committed > total / 4 && counts.compared > total / 20)
        #expect(counts.repeated > 0 && counts.reopened > 0 && counts.loaded > 0 && counts.loadedPartly > 0)
    }
}

private struct ProjectionWorld {
    struct Counts {
        var committed = 0
        var repeated = 0
        var reopened = 0
        var loaded = 0
        var loadedPartly = 0
        var compared = 0
    }

    private let seed: UInt64
    private var random: SeededGenerator
    private var schema: RandomSchema
    private let directory: TemporaryDirectory
    private let store: HistoryStore
    private var projection: ProjectionContext
    /// Tokens from which history is read again.
    private var tokens: [HistoryToken]

    init(seed: UInt64) async throws {
        self.seed = seed
        random = SeededGenerator(seed: seed)
        schema = RandomSchema(using: &random)
        directory = try TemporaryDirectory()
        var options = HistoryStore.Options()
        options.spillThreshold = random.pick([64, 400, 256 * 1024])
        store = try await HistoryStore.open(directory.file("w.db"), author: "master", create: true, options: options)
        tokens = [try await store.currentToken()]
        let sql = schema.tableSQL + schema.triggerSQL
        try await store.migrate { db in try db.execute(sql) }
        var tracking = TrackingOptions()
        tracking.rowImage = random.oneIn(4) ? .full : .changed
        try await store.track(.all, options: tracking)
        projection = try ProjectionContext(directory.file("p.db"))
    }

    mutating func run(_ transactions: Int, _ counts: inout Counts) async throws {
        for number in 1...transactions {
            if random.oneIn(60) {
                let ddl = schema.addColumn(using: &random)
                try await store.migrate { db in try db.execute(ddl) }
            }
            if try await write() { counts.committed += 1 }
            if random.oneIn(30) { try await loadPart(&counts) }
            if random.oneIn(5) || number == transactions { try await catchUp(number, &counts) }
        }
        await store.close()
    }

    private mutating func write() async throws -> Bool {
        let start = RandomTransaction(tables: schema.tables, random: SeededGenerator(seed: random.next()))
        do {
            let result = try await store.write { db in
                var transaction = start
                try transaction.run(db)
            }
            return result.token != nil
        } catch is RandomTransaction.Abandoned {
            return false
        } catch let error as SQLiteError where error.code == .constraint || error.code == .aborted {
            return false
        } catch let error as HistoryError where error.code == .constraint {
            return false
        }
    }

    private mutating func loadPart(_ counts: inout Counts) async throws {
        let projection = projection
        let some = Set(schema.tables.map(\.name).filter { _ in random.oneIn(2) })
        if random.oneIn(4) {
            try await store.withSnapshot { try await projection.load($0) }
            counts.loaded += 1
        } else if try await projection.durableToken() != nil {
            try await store.withSnapshot(of: some) { try await projection.load($0) }
            counts.loadedPartly += 1
        }
    }

    private mutating func catchUp(_ number: Int, _ counts: inout Counts) async throws {
        if random.oneIn(3) {
            await projection.close()
            projection = try ProjectionContext(directory.file("p.db"))
            counts.reopened += 1
        }
        var token = try await projection.durableToken() ?? tokens[0]
        if random.oneIn(3) {
            token = random.pick(tokens.filter { $0.sequence <= token.sequence })
            counts.repeated += 1
        }
        let end = try await store.merge(into: projection, after: token, pageSize: random.pick([1, 2, 5, 40, 4000]))
        tokens.append(end)
        #expect(try await projection.durableToken() == end)
        let difference = try await ProjectionContext.difference(from: store, path: directory.file("p.db"))
        try #require(difference.isEmpty, "seed \(seed), transaction \(number): \(difference)\n\(schema.tableSQL)")
        for table in schema.tables {
            let sql = "SELECT \(table.columns.joined(separator: ", ")) FROM \(table.name)"
            let expected = try await store.read { db in try db.rows(sql) }.map { "\($0)" }.sorted()
            let found = try await rows(directory.file("p.db"), sql).map { "\($0)" }.sorted()
            try #require(expected == found, "seed \(seed), transaction \(number), \(table.name)")
        }
        counts.compared += 1
    }
}
