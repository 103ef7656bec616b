import HistoryMessaging
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

/// What is handed to the broker is on the disk: seen in the order of syncs and hand-overs, with `synchronous` NORMAL.
@Suite("Durable, then published", .timeLimit(.minutes(3)))
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

/// A disk whose syncs are counted, and fail as long as they are to.
final class CountedDisk: Sendable {
    private let state = Locked<(failure: HistoryError?, failures: Int, syncs: Int)>((nil, 0, 0))

    /// From now on each sync fails; nil: none does.
    func fail(_ error: HistoryError?) { state.withLock { $0.failure = error } }

    /// The syncs that have failed.
    var failures: Int { state.withLock { $0.failures } }
    /// The syncs that have not.
    var syncs: Int { state.withLock { $0.syncs } }

    /// Options of a store on this disk.
    var options: HistoryStore.Options {
        var options = HistoryStore.Options()
        options.synchronous = .normal
        options.onSync = { [state] moment throws(HistoryError) in
            let failure = state.withLock { state in
                switch moment {
                case .before: if state.failure != nil { state.failures += 1 }
                case .after: state.syncs += 1
                }
                return state.failure
            }
            if case .before = moment, let failure { throw failure }
        }
        return options
    }
}

/// Whoever is told that history is held for it relies on that: with `synchronous` NORMAL too.
@Suite("Durable, then registered", .timeLimit(.minutes(3)))
struct DurableRegistrationTests {
    private let disk = CountedDisk()

    @Test(
        "a registration is answered once it is durable, and a failure of the disk is no answer that stays",
        arguments: [HistoryError.Code.diskFull, .database])
    func cleaner(code: HistoryError.Code) async throws {
        let fixture = try await CleanerFixture(transactions: 2, options: disk.options)
        let disk = disk
        try await fixture.cleaning { _ in
            try await fixture.peer { peer in
                let arguments: [String: ControlValue] = ["consumer": "search", "author": "orders"]
                disk.fail(HistoryError(code, "the log cannot be synced"))
                let refused = try await peer.request("register", arguments, id: "1")
                #expect(!refused.isOK && refused.code == code.description)
                #expect(disk.failures == 1 && disk.syncs == 0)
                disk.fail(nil)
                // The same command again: what was answered was not the last word.
                let reply = try await peer.request("register", arguments, id: "1")
                #expect(reply.isOK)
                #expect(disk.failures == 1 && disk.syncs == 1)
            }
        }
    }

    @Test(
        "acknowledgements whose sync fails at first count for a cleaning, and a lost lineage that they prove is announced"
    )
    func acknowledgements() async throws {
        let fixture = try await CleanerFixture(options: disk.options)
        let disk = disk
        try await fixture.register("a", user: fixture.host.user)
        var options = fixture.options
        options.strategy = .byAcknowledgements(1)
        let cleaner = try await fixture.cleaning(options) { cleaner in
            try await fixture.peer { peer in
                disk.fail(HistoryError(.diskFull, "the log cannot be synced"))
                try await peer.acknowledge(fixture.tokens[8], as: "a")
                try await until { disk.failures >= 2 }
                #expect(await cleaner.status().recorded == 0)
                disk.fail(nil)
                try await until { await cleaner.status().recorded == 1 }
                try await until { try await fixture.temporary.sequences().first == 9 }
                let (_, announced) = try await peer.watch()
                let failures = disk.failures
                disk.fail(HistoryError(.diskFull, "the log cannot be synced"))
                let last = fixture.tokens[19]
                let lost = HistoryToken(storeID: last.storeID, epoch: 1, sequence: 21, nonce: 4711)
                try await peer.acknowledge(lost, as: "a")
                try await until { disk.failures >= failures + 2 }
                disk.fail(nil)
                let told = try await announced.messages(2).map(\.text)
                #expect(told.contains { $0.contains(#""event":"epoch-changed""#) && $0.contains(#""epoch":2"#) })
            }
            return cleaner
        }
        let status = await cleaner.status()
        #expect(status.recorded == 1 && status.known == 0 && status.newEpochs == 1)
        #expect(status.refused == ["beyondHead": 1])
    }

    @Test(
        "without a broker a consumer is protected once its registration is durable, at the start and where it went back"
    )
    func consumer() async throws {
        let fixture = try await ConsumerFixture(options: disk.options)
        let disk = disk
        let context = RecordingContext()
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [context], options: fixture.options { $0.attemptsBeforeStall = 1000 })
        disk.fail(HistoryError(.diskFull, "the log cannot be synced"))
        let first = try await fixture.insert()
        let head = try await fixture.insert()
        try await withServices(consumer) {
            try await until { disk.failures >= 3 }
            #expect(!consumer.status().isProtected)
            #expect(context.sequences == [])
            disk.fail(nil)
            try await consumer.waitUntilCaughtUp(to: head)
            #expect(consumer.status().isProtected)
            #expect(disk.syncs > 0)
            try await until { try await fixture.store.consumers().map(\.acknowledged) == [head] }
            context.fail(at: [3])
            let (failures, syncs) = (disk.failures, disk.syncs)
            disk.fail(HistoryError(.diskFull, "the log cannot be synced"))
            try await consumer.rewind(to: .after(first))
            #expect(!consumer.status().isProtected)
            #expect(disk.failures > failures && disk.syncs == syncs)
            disk.fail(nil)
            try await until { consumer.status().isProtected }
            #expect(disk.syncs > syncs)
        }
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
