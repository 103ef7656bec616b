import HistoryMessaging
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

/// What is handed to the broker is on the disk: seen in the order of syncs and hand-overs, with `synchronous` NORMAL.
@Suite("Durable, then published", .timeLimit(.minutes(1)))
struct DurableFirstTests {
    private let journal = SyncJournal()
    private let logger = RecordingLogger()
    private let fixture: PublishingFixture

    init() async throws {
        var options = HistoryStore.Options()
        options.synchronous = .normal
        options.onSync = journal.observe
        fixture = try await PublishingFixture(options: options)
        journal.follow(fixture.path)
    }

    /// The relay has what nobody publishes: all that is written through the store.
    private func service(_ name: String) -> any HistoryService {
        guard name == "relay" else {
            var options = HistoryPublisher.Options()
            options.logger = logger
            options.onSend = journal.send
            return HistoryPublisher(fixture.store, broker: fixture.broker, options: options)
        }
        var options = HistoryRelay.Options()
        options.pollInterval = .milliseconds(10)
        options.logger = logger
        options.onSend = journal.send
        return HistoryRelay(fixture.store, broker: fixture.broker, options: options)
    }

    @Test(
        "no transaction is handed to the broker before a sync that began after its commit",
        arguments: ["publisher", "relay"])
    func order(name: String) async throws {
        let (fixture, journal) = (fixture, journal)
        try await withServices(service(name)) {
            for round in 0..<10 {
                let last = try await fixture.insert(1 + round % 3).sequence
                try await until { journal.sent.contains(last) }
            }
        }
        #expect(journal.sentTooEarly == [])
        #expect(journal.sent.sorted() == (try await fixture.committedTokens().map(\.sequence)))
        #expect(journal.syncs >= 10)
    }

    @Test(
        "where the log cannot be synced nothing is published, the failure is logged, and it is published once it can",
        arguments: ["publisher", "relay"], [HistoryError.Code.diskFull, .database])
    func failing(name: String, code: HistoryError.Code) async throws {
        let (fixture, journal, logger) = (fixture, journal, logger)
        let service = service(name)
        let last = try await fixture.insert(5).sequence
        journal.fail(HistoryError(code, "the log cannot be synced"))
        // Stopped while it waits for the disk it ends without an error.
        try await withServices(service) { try await until { journal.failures >= 2 } }
        #expect(journal.sent == [])
        let failures = journal.failures
        try await withServices(service) {
            try await until { journal.failures >= failures + 2 }
            #expect(journal.sent == [])
            #expect(try await fixture.messages().isEmpty)
            journal.fail(nil)
            try await until { journal.sent.contains(last) }
        }
        #expect(logger.messages.contains("the store cannot be used now, tries again"))
        #expect(journal.sentTooEarly == [])
        #expect(try await fixture.publishedTokens() == fixture.committedTokens())
    }
}

/// What was committed when each sync began, and what was handed to the broker when.
private final class SyncJournal: Sendable {
    private struct State {
        var path = ""
        var failure: HistoryError?
        var failures = 0
        /// The head when the sync under way began.
        var begun: Int64 = 0
        /// All up to here was committed before a sync began that has ended.
        var durable: Int64 = 0
        var syncs = 0
        var sent: [Int64] = []
        var sentTooEarly: [Int64] = []
    }

    private let state = Locked(State())

    var sent: [Int64] { state.withLock { $0.sent } }
    var sentTooEarly: [Int64] { state.withLock { $0.sentTooEarly } }
    var syncs: Int { state.withLock { $0.syncs } }
    var failures: Int { state.withLock { $0.failures } }

    /// The store's file.
    func follow(_ path: String) { state.withLock { $0.path = path } }

    /// From now on each sync fails; nil: none does.
    func fail(_ error: HistoryError?) { state.withLock { $0.failure = error } }

    var observe: SyncObserver {
        { [self] moment throws(HistoryError) in
            switch moment {
            case .before: try begin()
            case .after:
                state.withLock { state in
                    state.durable = state.begun
                    state.syncs += 1
                }
            }
        }
    }

    private func begin() throws(HistoryError) {
        let (path, failure) = state.withLock { state in
            if state.failure != nil { state.failures += 1 }
            return (state.path, state.failure)
        }
        if let failure { throw failure }
        let head = Self.head(path)
        state.withLock { $0.begun = head }
    }

    /// The newest transaction, by a connection of its own; 0 where that cannot be told.
    private static func head(_ path: String) -> Int64 {
        guard let database = try? Database(path: path, options: OpenOptions(access: .readOnly)) else { return 0 }
        defer { database.close() }
        return (try? database.first("SELECT max(sequence) FROM history_transaction", as: Int64.self)) ?? 0
    }

    var send: SendObserver {
        { [self] sequences in
            state.withLock { state in
                state.sent += sequences
                state.sentTooEarly += sequences.filter { $0 > state.durable }
            }
        }
    }
}
