import Foundation
import HistoryMessaging
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

/// A store with two tables, whose history begins with the transaction that tracks them.
struct ConsumerFixture {
    static let schema = """
        CREATE TABLE article(id INTEGER PRIMARY KEY, title TEXT); CREATE TABLE note(id INTEGER PRIMARY KEY, text TEXT)
        """

    let temporary: TemporaryStore
    var store: HistoryStore { temporary.store }

    init(options: HistoryStore.Options = HistoryStore.Options()) async throws {
        temporary = try await TemporaryStore(schema: Self.schema, options: options)
    }

    /// Options with short waits.
    func options(_ change: (inout HistoryConsumer.Options) -> Void = { _ in }) -> HistoryConsumer.Options {
        var options = HistoryConsumer.Options()
        options.pollIntervalWithoutBroker = .milliseconds(20)
        options.retry = Backoff(first: .milliseconds(5), longest: .milliseconds(20))
        options.registrationWait = .milliseconds(200)
        if ProcessInfo.processInfo.environment["TIDINGS_TEST_LOG"] != nil { options.logger = PrintLogger() }
        change(&options)
        return options
    }

    /// Inserts articles, one transaction each; gives the last token.
    @discardableResult
    func insert(_ count: Int = 1, into store: HistoryStore? = nil) async throws -> HistoryToken {
        var last: HistoryToken?
        for _ in 0..<count {
            last = try await (store ?? self.store).write { db in
                try db.execute("INSERT INTO article(title) VALUES ('new')")
            }.token
        }
        return try last ?? { throw Missing() }()
    }

    /// Another author's connection to the store.
    func author(_ name: String) async throws -> HistoryStore {
        try await HistoryStore.open(temporary.path, author: name)
    }

    struct Missing: Error {}
}

/// What happened, in order, from wherever.
final class Journal: Sendable {
    private struct State {
        var entries: [String] = []
        var waiters: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []
    }
    private let state = Locked(State())

    var entries: [String] { state.withLock { $0.entries } }
    var count: Int { state.withLock { $0.entries.count } }

    func add(_ entry: String) {
        let waiters = state.withLock { state in
            state.entries.append(entry)
            let count = state.entries.count
            let reached = state.waiters.filter { $0.count <= count }.map(\.continuation)
            state.waiters.removeAll { $0.count <= count }
            return reached
        }
        for waiter in waiters { waiter.resume() }
    }

    func clear() { state.withLock { $0.entries = [] } }

    /// Waits until there are so many entries.
    func wait(for count: Int) async {
        await withCheckedContinuation { continuation in
            let isReached = state.withLock { state in
                if state.entries.count >= count { return true }
                state.waiters.append((count, continuation))
                return false
            }
            if isReached { continuation.resume() }
        }
    }
}

/// Keeps in mind which transactions it was given.
final class RecordingContext: MergeContext {
    let name: String
    let origin: HistoryOrigin?
    let journal: Journal?
    private let seen = Locked<[Int64]>([])
    private let failing = Locked<Set<Int64>>([])

    init(_ name: String = "recording", origin: HistoryOrigin? = nil, journal: Journal? = nil) {
        self.name = name
        self.origin = origin
        self.journal = journal
    }

    var sequences: [Int64] { seen.withLock { $0 } }

    /// Throws at these transactions until it is told otherwise.
    func fail(at sequences: Set<Int64>) { failing.withLock { $0 = sequences } }

    struct Failure: Error, CustomStringConvertible {
        let sequence: Int64
        var description: String { "cannot merge \(sequence)" }
    }

    func merge(_ batch: HistoryBatch) async throws {
        let bad = failing.withLock { $0 }
        if let sequence = batch.transactions.map(\.token.sequence).first(where: bad.contains) {
            throw Failure(sequence: sequence)
        }
        seen.withLock { $0 += batch.transactions.map(\.token.sequence) }
        journal?.add("merge \(name)")
    }
}

/// All rows of the store, in memory.
final class MirrorContext: MergeContext {
    let name: String
    let canLoad = true
    private struct State {
        var rows: [String: [String: HistoryValues]] = [:]
        var loads: [(entities: [String], isWhole: Bool, sequence: Int64)] = []
        var sequences: [Int64] = []
        var changes = 0
    }
    private let state = Locked(State())

    init(_ name: String = "mirror") { self.name = name }

    var loads: [[String]] { state.withLock { $0.loads.map(\.entities) } }
    var wholeLoads: Int { state.withLock { $0.loads.count { $0.isWhole } } }
    var sequences: [Int64] { state.withLock { $0.sequences } }
    var changes: Int { state.withLock { $0.changes } }
    func rows(of entity: String) -> [HistoryValues] {
        state.withLock { ($0.rows[entity] ?? [:]).sorted { $0.key < $1.key }.map(\.value) }
    }

    func load(_ snapshot: HistorySnapshot) async throws {
        if snapshot.isWhole { state.withLock { $0.rows = [:] } }
        for entity in snapshot.entities {
            state.withLock { $0.rows[entity.name] = [:] }
            for try await page in snapshot.rows(of: entity) {
                state.withLock { state in
                    for row in page { state.rows[entity.name, default: [:]][Self.key(row, entity.keyColumns)] = row }
                }
            }
        }
        state.withLock {
            $0.loads.append((snapshot.entities.map(\.name), snapshot.isWhole, snapshot.token.sequence))
        }
    }

    struct Wrong: Error, CustomStringConvertible { let description: String }

    /// Strict: an insert of what is there, and an update or delete of what is not, is an error.
    func merge(_ batch: HistoryBatch) async throws {
        for transaction in batch.transactions {
            for try await change in transaction.changes {
                let change = change.decoded()
                let key = Self.key(change.key, change.key.columns)
                try state.withLock { state in
                    let old = state.rows[change.entity]?[key]
                    state.changes += 1
                    switch change.operation {
                    case .insert:
                        guard old == nil else { throw Wrong(description: "\(change.entity) \(key) is there already") }
                        state.rows[change.entity, default: [:]][key] = change.after
                    case .delete:
                        guard old != nil else { throw Wrong(description: "\(change.entity) \(key) is not there") }
                        state.rows[change.entity]?[key] = nil
                    case .update:
                        guard let old else { throw Wrong(description: "\(change.entity) \(key) is not there") }
                        let after = change.after
                        let row = HistoryValues(old.map { ($0.column, after?[$0.column] ?? $0.value) })
                        state.rows[change.entity]?[key] = nil
                        state.rows[change.entity]?[Self.key(row, change.key.columns)] = row
                    }
                }
            }
            state.withLock { $0.sequences.append(transaction.token.sequence) }
        }
    }

    private static func key(_ row: HistoryValues, _ columns: [String]) -> String {
        columns.map { "\(row[$0] ?? .null)" }.joined(separator: "/")
    }

    /// The rows that a store has now, in the same form.
    static func rows(of entity: String, in store: HistoryStore) async throws -> [HistoryValues] {
        let mirror = MirrorContext()
        try await store.withSnapshot(of: [entity]) { try await mirror.load($0) }
        return mirror.rows(of: entity)
    }
}

/// Shows what an agent logs, for whoever looks into a failing test.
struct PrintLogger: HistoryLogger {
    func log(_ level: HistoryLogLevel, _ entry: () -> HistoryLogEntry) {
        let entry = entry()
        let fields = entry.fields.map { " \($0.name)=\($0.value)" }.joined()
        FileHandle.standardError.write(Data("\(level.name) \(entry.service): \(entry.message)\(fields)\n".utf8))
    }
}

/// Waits until a consumer is stalled, and says why.
func stalled(_ consumer: HistoryConsumer, sourceLocation: SourceLocation = #_sourceLocation) async throws -> String {
    let reason = Locked<String?>(nil)
    try await until(sourceLocation: sourceLocation) {
        guard case .stalled(let why) = consumer.status().state else { return false }
        reason.withLock { $0 = why }
        return true
    }
    return try #require(reason.withLock { $0 }, sourceLocation: sourceLocation)
}
