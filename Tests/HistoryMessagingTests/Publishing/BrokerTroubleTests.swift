import HistoryMessaging
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

/// What a broker in trouble does to those who commit: nothing. One broker for all, hurt by one test after the other.
@Suite("A broker in trouble", .serialized, .timeLimit(.minutes(5)))
struct BrokerTroubleTests {
    private static let victim = Task { try await PrivateBroker.start() }

    private let broker: PrivateBroker
    private let fixture: PublishingFixture

    init() async throws {
        broker = try await Self.victim.value
        fixture = try await PublishingFixture(on: broker)
    }

    /// Small windows, so that whatever grew without bound would show.
    private var publisher: HistoryPublisher {
        var options = HistoryPublisher.Options()
        options.window = AMQPPublisher.Window(messages: 20)
        return HistoryPublisher(fixture.store, broker: fixture.broker, options: options)
    }

    @Test("P8: the broker killed and started again under load: tokens published are the tokens committed")
    func killed() async throws {
        let publisher = publisher
        let (fixture, broker) = (fixture, broker)
        try await broker.writeDownQueues()
        try await withServices(publisher) {
            for _ in 0..<2 {
                async let load = fixture.insert(2000)
                let before = await publisher.status().confirmed
                try await until { await publisher.status().confirmed > before + 50 }
                await broker.kill()
                // Goes on while there is no broker.
                try await fixture.insert(200)
                let token = try await load
                try await broker.start()
                try await publisher.waitUntilPublished(through: max(token, try await fixture.store.currentToken()))
            }
        }
        #expect(Set(try await fixture.publishedTokens()) == Set(try await fixture.committedTokens()))
        #expect(await publisher.status().unknown > 0)
    }

    @Test("P11: blocked by an alarm: commits go on, the state is shown and logged, and it recovers by itself")
    func blocked() async throws {
        let logger = RecordingLogger()
        var options = HistoryPublisher.Options()
        options.window = AMQPPublisher.Window(messages: 20)
        options.logger = logger
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker, options: options)
        let (fixture, broker) = (fixture, broker)
        try await withServices(publisher) {
            try await publisher.waitUntilPublished(through: try await fixture.insert(5))
            try await broker.setMemoryAlarm(true)
            try await fixture.insert(1000)
            try await until { await publisher.status().broker == .blocked(reason: "low on memory") }
            // Three batches of half a window, and not the thousand.
            #expect(await publisher.status().waiting <= 30)
            try await broker.setMemoryAlarm(false)
            try await publisher.waitUntilPublished(through: try await fixture.store.currentToken())
            #expect(await publisher.status().broker == .open)
        }
        #expect(Set(try await fixture.publishedTokens()) == Set(try await fixture.committedTokens()))
        #expect(logger.messages.contains("broker: blocked by the broker: low on memory"))
    }

    @Test(
        "An older copy is restored over the store in the middle of a page: what is written then is published, and no more is recorded as confirmed",
        arguments: [3, 16])
    func restored(head: Int64) async throws {
        let logger = RecordingLogger()
        var options = HistoryPublisher.Options()
        options.window = AMQPPublisher.Window(messages: 20)
        options.logger = logger
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker, options: options)
        let (fixture, broker) = (fixture, broker)
        // By another program: one that opens and closes the file here would drop the locks of all connections.
        let copy = fixture.temporary.directory.file("copy.db")
        @Sendable func sqlite(_ command: String) async throws {
            let process = try await FinishedProcess.run("/usr/bin/sqlite3", [fixture.path, command])
            try #require(process.ending == .exited(0), "\(process.error)")
        }
        // The page begins after 6: one copy does not hold its start, the other one holds a part of it.
        try await fixture.insert(2)
        if head == 3 { try await sqlite(".backup '\(copy)'") }
        let start = try await fixture.insert(3)
        try await withServices(publisher) { try await publisher.waitUntilPublished(through: start) }
        try await fixture.insert(10)
        if head == 16 { try await sqlite(".backup '\(copy)'") }
        try await fixture.insert(90)
        try await broker.setMemoryAlarm(true)
        try await withServices(publisher) {
            // There is room for three of the page's ten batches; the broker may take the first few messages.
            try await until { await publisher.status().waiting >= 20 }
            try await sqlite(".restore '\(copy)'")
            let last = try await fixture.insert(5)
            #expect(last.sequence == head + 5)
            let notice = "the store's lineage is another one: publishing begins anew"
            // The page is given up while there is no room for the rest of it: by the next heartbeat.
            try await until { logger.messages.contains(notice) }
            try await broker.setMemoryAlarm(false)
            try await until { try await fixture.row(of: fixture.store.origin)?.confirmed ?? 0 >= last.sequence }
            #expect(try await fixture.row(of: fixture.store.origin)?.confirmed == last.sequence)
        }
        let published = Set(try await fixture.publishedTokens())
        #expect(published.isSuperset(of: try await fixture.committedTokens()))
        #expect(try await fixture.row(of: fixture.store.origin)?.confirmed == head + 5)
    }

    @Test("A broker that stands still: commits take as long as without one, and nothing grows")
    func suspended() async throws {
        let publisher = publisher
        let (fixture, broker) = (fixture, broker)
        try await withServices(publisher) {
            try await publisher.waitUntilPublished(through: try await fixture.insert(5))
            broker.suspend()
            defer { broker.resume() }
            try await fixture.insert(100)
            // Three batches of half a window at the most, and no more whatever is committed.
            try await until { await publisher.status().waiting > 0 }
            let alone = try await TemporaryStore(schema: PublishingFixture.schema)
            let (stuck, free) = try await medians(fixture.store, alone.store)
            print("a commit while the broker stands still: \(stuck), without a broker: \(free)")
            #expect(stuck < free * 1.5 + .microseconds(20))
            let status = await publisher.status()
            #expect(status.waiting <= 30)
            #expect(status.confirmed == 6)
            broker.resume()
            try await publisher.waitUntilPublished(through: try await fixture.store.currentToken())
        }
        #expect(Set(try await fixture.publishedTokens()) == Set(try await fixture.committedTokens()))
    }

    /// The median times of 1,001 commits to each store, by turns.
    private func medians(_ stores: HistoryStore...) async throws -> (Duration, Duration) {
        var times: [[Duration]] = [[], []]
        for _ in 0..<1001 {
            for (index, store) in stores.enumerated() {
                let begin = ContinuousClock.now
                try await store.write { db in try db.execute("INSERT INTO item(v) VALUES (1)") }
                times[index].append(ContinuousClock.now - begin)
            }
        }
        return (times[0].sorted()[500], times[1].sorted()[500])
    }

    @Test("The broker stopped in order and started again: the relay's work is complete, too")
    func restarted() async throws {
        var options = HistoryRelay.Options()
        options.pollInterval = .milliseconds(20)
        let relay = HistoryRelay(fixture.store, broker: fixture.broker, options: options)
        let (fixture, broker) = (fixture, broker)
        try await withServices(relay) {
            async let load = fixture.insert(1000)
            try await until { await relay.status().confirmed > 50 }
            try await broker.restart()
            let token = try await load
            try await until { try await fixture.publishedSequence() == token.sequence }
        }
        #expect(Set(try await fixture.publishedTokens()) == Set(try await fixture.committedTokens()))
    }
}

/// Keeps what is logged.
final class RecordingLogger: HistoryLogger {
    private let entries = Locked<[String]>([])

    var messages: [String] { entries.withLock { $0 } }

    func log(_ level: HistoryLogLevel, _ entry: () -> HistoryLogEntry) {
        let message = entry().message
        entries.withLock { $0.append(message) }
    }
}
