import HistoryMessaging
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

/// A store that another connection has locked for longer than the busy timeout when a service starts.
@Suite("A store that is locked at the start", .timeLimit(.minutes(3)))
struct LockedStoreTests {
    private let fixture: PublishingFixture
    private let logger = RecordingLogger()
    private let lock: SQLiteConnection

    init() async throws {
        var options = HistoryStore.Options()
        options.busyTimeout = .milliseconds(50)
        fixture = try await PublishingFixture(options: options)
        try await fixture.insert(3)
        lock = try await SQLiteConnection.open(fixture.path)
        try await lock.run { try $0.execute("BEGIN IMMEDIATE") }
    }

    private var publisher: HistoryPublisher {
        var options = HistoryPublisher.Options()
        options.logger = logger
        return HistoryPublisher(fixture.store, broker: fixture.broker, options: options)
    }

    private var relay: HistoryRelay {
        var options = HistoryRelay.Options()
        options.pollInterval = .milliseconds(20)
        options.logger = logger
        return HistoryRelay(fixture.store, broker: fixture.broker, options: options)
    }

    private static let warning = "the store cannot be used now, tries again"

    @Test("The publisher waits, says so once, and publishes when it is free")
    func publisherWaits() async throws {
        let (fixture, logger, lock, publisher) = (fixture, logger, lock, publisher)
        try await withServices(publisher) {
            try await until { logger.messages.count { $0 == Self.warning } >= 2 }
            try await lock.run { try $0.execute("ROLLBACK") }
            try await publisher.waitUntilPublished(through: try await fixture.store.currentToken())
        }
        #expect(try await fixture.publishedTokens() == fixture.committedTokens())
    }

    @Test("The relay waits, says so, and publishes when it is free")
    func relayWaits() async throws {
        let (fixture, logger, lock) = (fixture, logger, lock)
        let head = try await fixture.store.currentToken().sequence
        try await withServices(relay) {
            try await until { logger.messages.count { $0 == Self.warning } >= 2 }
            try await lock.run { try $0.execute("ROLLBACK") }
            try await until { try await fixture.publishedSequence() == head }
        }
        #expect(try await fixture.publishedTokens() == fixture.committedTokens())
    }

    @Test("Both stop without an error while they wait", arguments: ["publisher", "relay"])
    func stopped(name: String) async throws {
        let logger = logger
        try await withServices(name == "publisher" ? publisher : relay) {
            try await until { logger.messages.contains(Self.warning) }
        }
        #expect(try await fixture.messages().isEmpty)
        try await lock.run { try $0.execute("ROLLBACK") }
    }
}
