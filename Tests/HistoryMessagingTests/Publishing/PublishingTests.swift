import HistoryMessaging
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

@Suite("Publishing", .timeLimit(.minutes(5)))
struct HistoryPublishingTests {
    @Test("What was written before and while it runs is published once, and confirmed through is exact")
    func everything() async throws {
        let fixture = try await PublishingFixture()
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        // The schema and the tracking were written through this store too.
        try await fixture.insert(20)
        let token = try await withServices(publisher) {
            let token = try await fixture.insert(30)
            try await publisher.waitUntilPublished(through: token)
            return token
        }
        let committed = try await fixture.committedTokens()
        #expect(try await fixture.publishedTokens() == committed)
        #expect(committed.count == 51)
        let status = await publisher.status()
        #expect(status.confirmed == 51)
        #expect(status.confirmedThrough == token.sequence)
        #expect(status.unrouted + status.nacked + status.unknown + status.thin + status.purged + status.waiting == 0)
        #expect(!status.isRunning)
        let row = try #require(try await fixture.row(of: fixture.store.origin))
        #expect(row == PublisherRecord(origin: row.origin, confirmed: token.sequence, heartbeat: 0))
    }

    @Test("PHT1: the first start switches publishing on from the purge mark")
    func secondSwitch() async throws {
        let fixture = try await PublishingFixture()
        let last = try await fixture.insert(5)
        try await fixture.store.deleteHistory(before: .sequence(3))
        #expect(try await fixture.publishedSequence() == nil)
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        try await withServices(publisher) { try await publisher.waitUntilPublished(through: last) }
        #expect(try await fixture.publishedSequence() == 2)
        #expect(try await fixture.publishedTokens() == fixture.committedTokens())
        // What was purged before it was published is counted.
        #expect(await publisher.status().purged == 2)
    }

    @Test("A later run publishes what was written meanwhile, and nothing again")
    func laterRun() async throws {
        let fixture = try await PublishingFixture()
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        for _ in 0..<3 {
            let token = try await fixture.insert(4)
            try await withServices(publisher) { try await publisher.waitUntilPublished(through: token) }
        }
        #expect(try await fixture.publishedTokens() == fixture.committedTokens())
    }

    @Test("Contexts with origins of their own are published by the same publisher, each with its row")
    func contexts() async throws {
        let fixture = try await PublishingFixture()
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        let origins = (0..<3).map { _ in HistoryOrigin() }
        try await withServices(publisher) {
            for _ in 0..<5 { for origin in origins { try await fixture.insert(1, origin: origin) } }
            try await publisher.waitUntilPublished(through: try await fixture.store.currentToken())
        }
        #expect(try await fixture.publishedTokens() == fixture.committedTokens())
        let head = try await fixture.store.currentToken().sequence
        var confirmed: [Int64?] = []
        for origin in origins { confirmed.append(try await fixture.row(of: origin)?.confirmed) }
        #expect(confirmed == [head - 2, head - 1, head])
    }

    @Test("Origins that write no more are forgotten, so that contexts may be many")
    func manyContexts() async throws {
        let fixture = try await PublishingFixture()
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        try await withServices(publisher) {
            for _ in 0..<200 { try await fixture.insert(1, origin: HistoryOrigin()) }
            try await publisher.waitUntilPublished(through: try await fixture.store.currentToken())
            try await until { try await fixture.store.writtenOrigins().all.count < 64 }
            // One that was forgotten is known again when it writes.
            let token = try await fixture.insert(1)
            try await publisher.waitUntilPublished(through: token)
        }
        #expect(try await fixture.publishedTokens() == fixture.committedTokens())
    }

    @Test("Others' transactions are left to their own publishers")
    func others() async throws {
        let fixture = try await PublishingFixture()
        let other = try await HistoryStore.open(fixture.path, author: "other")
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        try await withServices(publisher) {
            try await fixture.insert(10, into: other)
            try await publisher.waitUntilPublished(through: try await fixture.insert(1))
        }
        let published = try await fixture.publishedTokens().map(\.sequence)
        #expect(published == [1, 12])
        await other.close()
    }

    @Test("P10: no queue is bound: commits go on, unrouted is counted, and counts as published")
    func unrouted() async throws {
        let fixture = try await PublishingFixture(isBound: false)
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        let token = try await withServices(publisher) {
            let token = try await fixture.insert(10)
            try await publisher.waitUntilPublished(through: token)
            return token
        }
        let status = await publisher.status()
        #expect(status.unrouted == 11)
        #expect(status.confirmed == 0)
        #expect(try await fixture.row(of: fixture.store.origin)?.confirmed == token.sequence)
    }

    @Test("P18: a transaction over the limit is announced without its changes, and nothing larger is ever sent")
    func thin() async throws {
        let fixture = try await PublishingFixture()
        var options = HistoryPublisher.Options()
        options.messageLimit = 10_000
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker, options: options)
        let token = try await withServices(publisher) {
            try await fixture.insert(1)
            let large = try await fixture.temporary.write("INSERT INTO item(v) VALUES (hex(zeroblob(20000)))")
            let token = try #require(large)
            try await publisher.waitUntilPublished(through: token)
            return token
        }
        let messages = try await fixture.messages()
        #expect(messages.count == 3)
        #expect(messages.allSatisfy { $0.body.count <= 10_000 })
        let last = try HistoryMessage(decoding: try #require(messages.last).body)
        #expect(last.header.token == token)
        #expect(last.header.isOmitted)
        #expect(last.header.changeCount == 1)
        #expect(last.changes == nil)
        #expect(await publisher.status().thin == 1)
    }

    @Test("P7: a transaction of 1,000,000 rows is published as a thin message, in 8 MiB")
    func million() async throws {
        let fixture = try await PublishingFixture()
        let child = try ChildProcess(
            ChildProcess.built("TestAgent"), ["publisher", "large", fixture.path, fixture.host.url, "1000000"])
        let (lines, ending) = await child.output()
        #expect(ending == .exited(0))
        let numbers = try #require(lines.first).split(separator: " ").compactMap { Int($0) }
        print("memory of publishing 1,000,000 rows: \(numbers[2] - numbers[1]) KiB over the commit's peak")
        #expect(numbers[3] == 1)
        #expect(numbers[2] - numbers[1] <= 8 * 1024)
        let messages = try await fixture.messages()
        let header = try HistoryMessageHeader(decoding: try #require(messages.last).body)
        #expect(header.changeCount == 1_000_000)
        #expect(header.isOmitted)
    }

    @Test("P9: connections that are cut under load: what was on its way is sent again, and consumed once in effect")
    func cut() async throws {
        let fixture = try await PublishingFixture()
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        let context = try await FileContext(fixture.temporary.directory.file("effects.db"))
        var options = HistoryConsumer.Options()
        options.registrationWait = .milliseconds(100)
        let consumer = HistoryConsumer(
            fixture.store, name: "once", contexts: [context], broker: fixture.broker, options: options)
        let isCut = Locked(false)
        try await withServices(publisher, consumer) {
            async let load = fixture.insert(while: { !isCut.withLock { $0 } })
            var cuts = 0
            try await until { await publisher.status().confirmed > 50 }
            while true {
                try await until { try await fixture.host.broker.closeConnections(virtualHost: fixture.host.name) > 0 }
                cuts += 1
                let confirmed = await publisher.status().confirmed
                try await until { await publisher.status().confirmed > confirmed }
                // Sooner or later something is on its way when they are cut.
                if cuts >= 3, await publisher.status().unknown > 0 { break }
            }
            isCut.withLock { $0 = true }
            let last = try await load
            try await publisher.waitUntilPublished(through: last)
            try await consumer.waitUntilCaughtUp(to: last)
        }
        let committed = try await fixture.committedTokens()
        let published = try await fixture.publishedTokens()
        #expect(Set(published) == Set(committed))
        #expect(await publisher.status().unknown > 0)
        let effects = try await context.contents().effects
        #expect(effects == Dictionary(uniqueKeysWithValues: committed.map { ($0.sequence, 1) }))
        await context.close()
    }

    @Test("P9: a publish to a broker that is not there is not marked published; it is left to the relay")
    func nobody() async throws {
        let fixture = try await PublishingFixture()
        let nowhere = try Broker(urls: "amqp://127.0.0.1:1")
        let publisher = HistoryPublisher(fixture.store, broker: nowhere)
        try await withServices(publisher) {
            try await fixture.insert(10)
            try await until { await publisher.status().waiting == 11 }
            try await until {
                if case .recovering? = await publisher.status().broker { true } else { false }
            }
        }
        #expect(await publisher.status().confirmed == 0)
        // Without a row the relay takes over at once.
        #expect(try await fixture.row(of: fixture.store.origin) == nil)
    }

    @Test("An exchange that is deleted under the publisher is declared again, and everything sent again")
    func deletedExchange() async throws {
        let fixture = try await PublishingFixture()
        let names = fixture.broker.names(for: fixture.store)
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        try await withServices(publisher) {
            try await publisher.waitUntilPublished(through: try await fixture.insert(5))
            try await AMQPConnection.withConnection(try AMQPConfiguration(urls: fixture.host.url, name: "test")) {
                try await $0.delete(exchange: names.history)
            }
            try await publisher.waitUntilPublished(through: try await fixture.insert(5))
        }
        let status = await publisher.status()
        #expect(status.unknown > 0)
        // The bindings went with the exchange.
        #expect(status.confirmed == 6)
        #expect(status.unrouted == 5)
    }

    @Test("History that is purged before it was published is passed over, and counted")
    func purged() async throws {
        let fixture = try await PublishingFixture()
        var options = HistoryPublisher.Options()
        options.window = AMQPPublisher.Window(messages: 2)
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker, options: options)
        try await fixture.insert(100)
        try await fixture.store.deleteHistory(before: .sequence(91))
        try await withServices(publisher) {
            try await publisher.waitUntilPublished(through: try await fixture.store.currentToken())
        }
        #expect(try await fixture.publishedTokens().map(\.sequence) == Array(91...101))
        #expect(await publisher.status().purged == 90)
    }

    @Test("Another epoch under a running publisher: it begins anew, and goes on with the epoch's tokens")
    func epoch() async throws {
        let fixture = try await PublishingFixture()
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        try await withServices(publisher) {
            let token = try await fixture.insert(3)
            try await publisher.waitUntilPublished(through: token)
            try await until { try await fixture.row(of: fixture.store.origin)?.confirmed == token.sequence }
            try await fixture.store.coordinate { db, _ in try db.execute("UPDATE history_store SET epoch = 2") }
            let last = try await fixture.insert(2)
            try await until { try await fixture.row(of: fixture.store.origin)?.confirmed == last.sequence }
        }
        let published = try await fixture.publishedTokens()
        #expect(published.map(\.sequence) == [1, 2, 3, 4, 5, 6])
        #expect(published.map(\.epoch) == [1, 1, 1, 1, 2, 2])
    }

    @Test("Without a broker it waits to be stopped, and switches nothing on")
    func noBroker() async throws {
        let temporary = try await TemporaryStore(schema: PublishingFixture.schema)
        let publisher = HistoryPublisher(temporary.store, broker: .none)
        try await withServices(publisher) {
            let token = try #require(try await temporary.write("INSERT INTO item(v) VALUES (1)"))
            let error = await #expect(throws: MessagingError.self) {
                try await publisher.waitUntilPublished(through: token)
            }
            #expect(error?.code == .invalid)
        }
        #expect(try await temporary.store.info().publishedSequence == nil)
    }

    @Test("It runs once at a time; stopping ends the run, and whoever waits is told")
    func life() async throws {
        let fixture = try await PublishingFixture()
        let publisher = HistoryPublisher(fixture.store, broker: try Broker(urls: "amqp://127.0.0.1:1"))
        await publisher.stop()
        let token = try await fixture.store.currentToken()
        let waiting = Task { try await publisher.waitUntilPublished(through: token) }
        try await withServices(publisher) {
            try await until { await publisher.status().waiting == 1 }
            let error = await #expect(throws: MessagingError.self) { try await publisher.run() }
            #expect(error?.code == .alreadyRunning)
        }
        let error = await #expect(throws: MessagingError.self) { try await waiting.value }
        #expect(error?.code == .stopped)
        let cancelled = Task { try await publisher.waitUntilPublished(through: token) }
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
    }

    @Test("A cancelled run ends without waiting, and a later one publishes the rest")
    func cancelled() async throws {
        let fixture = try await PublishingFixture()
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        let run = Task { try await publisher.run() }
        try await until { await publisher.status().confirmed > 0 }
        run.cancel()
        await #expect(throws: CancellationError.self) { try await run.value }
        let token = try await fixture.insert(5)
        try await withServices(publisher) { try await publisher.waitUntilPublished(through: token) }
        #expect(Set(try await fixture.publishedTokens()) == Set(try await fixture.committedTokens()))
    }

    @Test("Idle, it writes nothing into the store")
    func idle() async throws {
        let fixture = try await PublishingFixture()
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        try await withServices(publisher) {
            let token = try await fixture.insert(5)
            try await publisher.waitUntilPublished(through: token)
            try await until { try await fixture.row(of: fixture.store.origin)?.confirmed == token.sequence }
            let version = try await fixture.store.dataVersion()
            // Longer than a heartbeat and than what is batched.
            try await Task.sleep(for: .seconds(2.5))
            #expect(try await fixture.store.dataVersion() == version)
        }
    }
}
