import Foundation
import HistoryMessaging
import LocalContexts
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

/// The agents together, from the commit to the cleaning.
@Suite("The whole pipeline", .timeLimit(.minutes(3)))
struct PipelineTests {
    @Test("P10: nobody's queue is bound: commits go on, unrouted ones are counted, a later consumer gets everything")
    func laterConsumer() async throws {
        let fixture = try await PublishingFixture(isBound: false)
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        let context = RecordingContext()
        var options = HistoryConsumer.Options()
        options.registrationWait = .milliseconds(100)
        let consumer = HistoryConsumer(
            fixture.store, name: "late", contexts: [context], broker: fixture.broker, options: options)
        try await withServices(publisher) {
            let last = try await fixture.insert(200)
            try await publisher.waitUntilPublished(through: last)
            #expect(await publisher.status().unrouted == 201)
            try await withServices(consumer) { try await consumer.waitUntilCaughtUp(to: last) }
        }
        #expect(context.sequences == Array(1...201))
    }

    @Test("P8: the broker is killed and started again under load: the tokens merged are the tokens committed")
    func brokerKilled() async throws {
        let server = try await PrivateBroker.start()
        let fixture = try await PublishingFixture(on: server, isBound: false)
        let names = fixture.broker.names(for: fixture.store)
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        let context = RecordingContext()
        var options = HistoryConsumer.Options()
        options.registrationWait = .milliseconds(100)
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [context], broker: fixture.broker, options: options)
        try await withServices(publisher, consumer) {
            try await until {
                (try? await server.queueLength(names.queue(of: "c"), virtualHost: fixture.host.name)) != nil
            }
            try await server.writeDownQueues()
            async let load = fixture.insert(300)
            try await until { await publisher.status().confirmed > 50 }
            await server.kill()
            _ = try await load
            let whileDown = try await fixture.insert(300)
            try await consumer.waitUntilCaughtUp(to: whileDown)
            try await server.start()
            let last = try await fixture.insert(300)
            try await publisher.waitUntilPublished(through: last)
            try await consumer.waitUntilCaughtUp(to: last)
        }
        let head = try await fixture.store.currentToken().sequence
        #expect(context.sequences == Array(1...head))
        #expect(await publisher.status().confirmedThrough == head)
        await server.shutDown()
    }

    @Test("From the commit to the cleaning: the view equals the store, history goes up to the oldest acknowledgement")
    func commitToCleaning() async throws {
        let fixture = try await PublishingFixture(isBound: false)
        let path = fixture.temporary.directory.file("view.db")
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        let cleaner = HistoryCleaner(fixture.store, broker: fixture.broker)
        let consumer = HistoryConsumer(
            fixture.store, name: "view", contexts: [try ProjectionContext(path)], broker: fixture.broker)
        try await withServices(publisher, cleaner, consumer) {
            let last = try await fixture.insert(100)
            try await consumer.waitUntilCaughtUp(to: last)
            #expect(consumer.status().isProtected)
            try await until { try await fixture.store.consumers().first?.acknowledged == last }
            #expect(try await cleaner.dryRun().count == 100)
            #expect(try await cleaner.clean().count == 100)
        }
        #expect(try await fixture.temporary.sequences() == [101])
        let difference = try await ProjectionContext.difference(from: fixture.store, path: path)
        #expect(difference.entities["item"]?.rows == 100)
        #expect(difference.isEmpty)
    }

    @Test(
        "P28: an older copy of the store put in its place under running agents: all notice, a new epoch, no wrong purge"
    )
    func olderCopy() async throws {
        let fixture = try await PublishingFixture(isBound: false)
        let copy = fixture.temporary.directory.file("copy.db")
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        let cleaner = HistoryCleaner(fixture.store, broker: fixture.broker)
        let mirror = MirrorContext()
        var options = HistoryConsumer.Options()
        options.pollInterval = .milliseconds(100)
        let consumer = HistoryConsumer(
            fixture.store, name: "view", contexts: [mirror], broker: fixture.broker, options: options)
        try await withServices(publisher, cleaner, consumer) {
            let early = try await fixture.insert(5)
            try await consumer.waitUntilCaughtUp(to: early)
            let backup = try await FinishedProcess.run("/usr/bin/sqlite3", [fixture.path, ".backup '\(copy)'"])
            #expect(backup.ending == .exited(0))
            let late = try await fixture.insert(20)
            try await consumer.waitUntilCaughtUp(to: late)
            try await until { try await fixture.store.consumers().first?.acknowledged == late }
            #expect(mirror.rows(of: "item").count == 25)

            for companion in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: fixture.path + companion) }
            #expect(rename(copy, fixture.path) == 0)

            // The cleaner begins the epoch; then the consumer's view is that of the copy.
            try await until { try await fixture.store.currentToken().epoch == 2 }
            try await until { consumer.status().token?.epoch == 2 && mirror.rows(of: "item").count == 5 }
            // What is written now is written to the file that is there, and arrives.
            let next = try await fixture.insert(3)
            #expect(next.sequence == early.sequence + 3)
            try await consumer.waitUntilCaughtUp(to: next)
            try await until { try await fixture.store.consumers().first?.acknowledged == next }
            try await publisher.waitUntilPublished(through: next)
            #expect(mirror.rows(of: "item").count == 8)
            #expect(await cleaner.status().newEpochs == 1)
            #expect(consumer.status().counts.resyncs >= 1)
        }
        // Nobody has purged anything.
        #expect(try await fixture.temporary.sequences() == Array(1...9))
    }

    @Test(
        "P22: a reader that pauses between pages of 200,000 transactions, a writer goes on: the log stays under 64 MiB")
    func writeAheadLog() async throws {
        let temporary = try await TemporaryStore(schema: PublishingFixture.schema)
        let store = temporary.store
        @Sendable func write(_ count: Int) async throws {
            _ = try await store.writeRepeatedly(count, from: 0) { db, _ in
                try db.execute("INSERT INTO item(v) VALUES ('a transaction of about a hundred bytes')")
            }
        }
        try await write(200_000)
        let log = temporary.path + "-wal"
        let sizes = Locked<[Int]>([])
        let context = ClosureContext("slow") { batch in
            // As long as it pauses, the writer goes on.
            try await write(1000)
            let size = try FileManager.default.attributesOfItem(atPath: log)[.size] as? Int
            sizes.withLock { $0.append(size ?? .max) }
        }
        var options = HistoryConsumer.Options()
        options.pageSize = 4000
        let consumer = HistoryConsumer(store, name: "slow", contexts: [context], options: options)
        let head = try await store.currentToken()
        try await withServices(consumer) { try await consumer.waitUntilCaughtUp(to: head) }
        let seen = sizes.withLock { $0 }
        #expect(seen.count >= 50)
        #expect(seen.max() ?? .max < 64 << 20)
    }
}
