import Glibc
import HistoryMessaging
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

@Suite("Relaying", .timeLimit(.minutes(5)))
struct HistoryRelayingTests {
    private static func options(grace: Duration = .milliseconds(200)) -> HistoryRelay.Options {
        var options = HistoryRelay.Options()
        options.grace = grace
        options.pollInterval = .milliseconds(20)
        return options
    }

    @Test("What is written without a publisher, by any process, is published, and published through is the head")
    func strangers() async throws {
        let fixture = try await PublishingFixture()
        let relay = HistoryRelay(fixture.store, broker: fixture.broker, options: Self.options())
        try await fixture.insert(10)
        try await withServices(relay) {
            for _ in 0..<5 {
                let other = try await HistoryStore.open(fixture.path, author: "exec")
                try await fixture.insert(2, into: other)
                await other.close()
            }
            let head = try await fixture.store.currentToken().sequence
            try await until { try await fixture.publishedSequence() == head }
        }
        #expect(try await fixture.publishedTokens() == fixture.committedTokens())
        let status = await relay.status()
        #expect(status.confirmed == 21)
        #expect(status.publishedThrough == 21)
        #expect(status.role == .idle)
    }

    @Test("A publisher that is alive publishes its own: the relay only records how far everything is")
    func alive() async throws {
        let fixture = try await PublishingFixture()
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        let other = try await HistoryStore.open(fixture.path, author: "other")
        let relay = HistoryRelay(other, broker: fixture.broker, options: Self.options(grace: .seconds(60)))
        try await withServices(publisher) {
            try await until { try await fixture.row(of: fixture.store.origin) != nil }
            try await withServices(relay) {
                for _ in 0..<4 {
                    try await fixture.insert(50)
                    try await fixture.insert(3, into: other)
                }
                let head = try await fixture.store.currentToken().sequence
                try await until { try await fixture.publishedSequence() == head }
            }
        }
        // Each once.
        #expect(try await fixture.publishedTokens().sorted() == fixture.committedTokens())
        #expect(await relay.status().confirmed == 12)
        #expect(await publisher.status().confirmed == 201)
        await other.close()
    }

    @Test("What a dead author has left is published after the grace period, from what it has confirmed on")
    func dead() async throws {
        let fixture = try await PublishingFixture()
        let child = try ChildProcess(ChildProcess.built("TestAgent"), ["publisher", "leave", fixture.path, "7"])
        #expect(await child.wait() == .signalled(SIGKILL))
        var options = Self.options()
        options.forgetAfter = .zero
        let relay = HistoryRelay(fixture.store, broker: fixture.broker, options: options)
        try await withServices(relay) {
            try await until { try await fixture.publishedSequence() == 8 }
            // With the next record the dead one's row goes: it has nothing left.
            try await fixture.insert(1)
            try await until { try await fixture.store.observe { db, _ in try PublisherRecord.all(db) }.isEmpty }
            try await until { try await fixture.publishedSequence() == 9 }
        }
        #expect(try await fixture.publishedTokens() == fixture.committedTokens())
    }

    @Test("A publisher whose broker is away says that it lives, and is left alone")
    func heartbeat() async throws {
        let fixture = try await PublishingFixture()
        let publisher = HistoryPublisher(fixture.store, broker: try Broker(urls: "amqp://127.0.0.1:1"))
        let other = try await HistoryStore.open(fixture.path, author: "other")
        let relay = HistoryRelay(other, broker: fixture.broker, options: Self.options(grace: .seconds(10)))
        try await withServices(publisher, relay) {
            try await until { try await fixture.row(of: fixture.store.origin) != nil }
            let first = try await fixture.row(of: fixture.store.origin)?.heartbeat ?? 0
            try await until { try await fixture.row(of: fixture.store.origin)?.heartbeat ?? 0 > first }
            #expect(await relay.status().confirmed <= 1)
        }
        await other.close()
    }

    @Test("Another epoch under a running relay: it begins anew, and goes on with the epoch's tokens")
    func epoch() async throws {
        let fixture = try await PublishingFixture()
        let relay = HistoryRelay(fixture.store, broker: fixture.broker, options: Self.options())
        try await withServices(relay) {
            try await fixture.insert(3)
            try await until { try await fixture.publishedSequence() == 4 }
            try await fixture.store.coordinate { db, _ in try db.execute("UPDATE history_store SET epoch = 2") }
            try await fixture.insert(2)
            try await until { try await fixture.publishedSequence() == 6 }
        }
        let published = try await fixture.publishedTokens()
        #expect(published.map(\.sequence) == [1, 2, 3, 4, 5, 6])
        #expect(published.map(\.epoch) == [1, 1, 1, 1, 2, 2])
    }

    @Test("A store that is closed under them ends both, with the reason")
    func closed() async throws {
        let fixture = try await PublishingFixture()
        let services: [any HistoryService] = [
            HistoryPublisher(fixture.store, broker: fixture.broker),
            HistoryRelay(fixture.store, broker: fixture.broker, options: Self.options()),
        ]
        let runs = services.map { service in Task { try await service.run() } }
        try await until { try await fixture.publishedSequence() == 1 }
        await fixture.store.close()
        for run in runs {
            let error = await #expect(throws: HistoryError.self) { try await run.value }
            #expect(error?.code == .closed)
        }
    }

    @Test("One that has stopped while the broker was away is taken over at once, whatever the grace")
    func gone() async throws {
        let fixture = try await PublishingFixture()
        let publisher = HistoryPublisher(fixture.store, broker: try Broker(urls: "amqp://127.0.0.1:1"))
        try await withServices(publisher) { try await until { await publisher.status().waiting == 1 } }
        let relay = HistoryRelay(fixture.store, broker: fixture.broker, options: Self.options(grace: .seconds(3600)))
        try await withServices(relay) { try await until { try await fixture.publishedSequence() == 1 } }
        // Its row has served.
        #expect(try await fixture.row(of: fixture.store.origin) == nil)
    }

    @Test("One relay a store: the second waits, knows for whom, and takes over when the first stops")
    func oneAtATime() async throws {
        let fixture = try await PublishingFixture()
        let first = HistoryRelay(fixture.store, broker: fixture.broker, options: Self.options())
        let second = HistoryRelay(fixture.store, broker: fixture.broker, options: Self.options())
        try await withServices(second) {
            try await withServices(first) {
                try await until { await (first.status().role, second.status().role) != (.idle, .idle) }
                try await until {
                    let roles = await [first.status().role, second.status().role]
                    return roles.contains(.active) && roles.contains { if case .waiting = $0 { true } else { false } }
                }
                let roles = await [first.status().role, second.status().role]
                let holder = roles.lazy.compactMap { if case .waiting(let holder) = $0 { holder } else { nil } }.first
                #expect(holder == "\(fixture.store.origin.host) \(getpid())")
            }
            try await until { await second.status().role == .active }
            try await fixture.insert(3)
            try await until { try await fixture.publishedSequence() == 4 }
        }
    }

    @Test("A relay that is killed is replaced at once by the one that waits")
    func takeover() async throws {
        let fixture = try await PublishingFixture()
        let child = try ChildProcess(
            ChildProcess.built("TestAgent"), ["publisher", "relay", fixture.path, fixture.host.url, "none", "0"])
        var lines = child.lines.makeAsyncIterator()
        #expect(await lines.next() == "active")
        let relay = HistoryRelay(fixture.store, broker: fixture.broker, options: Self.options())
        try await withServices(relay) {
            let holder = "\(fixture.store.origin.host) \(child.processID)"
            try await until { await relay.status().role == .waiting(holder: holder) }
            child.send(SIGKILL)
            let killed = ContinuousClock.now
            try await until { await relay.status().role == .active }
            #expect(ContinuousClock.now - killed < .seconds(2))
            try await fixture.insert(3)
            try await until { try await fixture.publishedSequence() == 4 }
        }
        #expect(Set(try await fixture.publishedTokens()) == Set(try await fixture.committedTokens()))
    }

    @Test("Foreign DDL on a tracked table is found, recorded and published by the relay")
    func foreign() async throws {
        let fixture = try await PublishingFixture()
        let relay = HistoryRelay(fixture.store, broker: fixture.broker, options: Self.options())
        try await withServices(relay) {
            try await until { try await fixture.publishedSequence() == 1 }
            let connection = try await SQLiteConnection.open(fixture.path)
            try await connection.run { db in try db.execute("ALTER TABLE item ADD COLUMN w") }
            await connection.close()
            try await until { try await fixture.publishedSequence() == 2 }
        }
        let message = try HistoryMessage(decoding: try #require(try await fixture.messages().last).body)
        #expect(message.schemaChanges.map(\.kind) == [.alter, .captureBreak])
        #expect(message.header.author == "tidings")
    }

    @Test("A publisher can relay for the store in its own process")
    func inside() async throws {
        let fixture = try await PublishingFixture()
        var options = HistoryPublisher.Options()
        options.relays = true
        options.relay = Self.options()
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker, options: options)
        try await withServices(publisher) {
            try await until { await publisher.status().relay?.role == .active }
            let other = try await HistoryStore.open(fixture.path, author: "exec")
            try await fixture.insert(5, into: other)
            await other.close()
            try await fixture.insert(5)
            try await until { try await fixture.publishedSequence() == 11 }
        }
        #expect(Set(try await fixture.publishedTokens()) == Set(try await fixture.committedTokens()))
    }

    @Test("History that is purged before it was published is passed over, and counted")
    func purged() async throws {
        let fixture = try await PublishingFixture()
        let relay = HistoryRelay(fixture.store, broker: fixture.broker, options: Self.options())
        try await withServices(relay) { try await until { try await fixture.publishedSequence() == 1 } }
        try await fixture.insert(50)
        try await fixture.store.deleteHistory(before: .sequence(41))
        try await withServices(relay) { try await until { try await fixture.publishedSequence() == 51 } }
        #expect(try await fixture.publishedTokens().map(\.sequence) == [1] + Array(41...51))
    }

    @Test("Twenty thousand transactions of nobody's and of one that is alive: all published, none left out")
    func backlog() async throws {
        let fixture = try await PublishingFixture()
        let other = try await HistoryStore.open(fixture.path, author: "other")
        for _ in 0..<20 {
            _ = try await fixture.store.writeRepeatedly(500, from: 0) { db, _ in
                try db.execute("INSERT INTO item(v) VALUES (1)")
            }
            _ = try await other.writeRepeatedly(500, from: 0) { db, _ in
                try db.execute("INSERT INTO item(v) VALUES (2)")
            }
        }
        let publisher = HistoryPublisher(other, broker: fixture.broker)
        let relay = HistoryRelay(fixture.store, broker: fixture.broker, options: Self.options(grace: .seconds(60)))
        try await withServices(publisher, relay) {
            try await until { try await fixture.publishedSequence() == 20_001 }
        }
        #expect(Set(try await fixture.publishedTokens()).count == 20_001)
        #expect(await relay.status().confirmed >= 10_001)
        await other.close()
    }
}
