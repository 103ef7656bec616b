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
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        let cleaner = HistoryCleaner(fixture.store, broker: fixture.broker)
        let mirror = MirrorContext()
        let seen = Locked<[Int64]>([])
        let closure = ClosureContext.eachTransaction("closure") { transaction in
            seen.withLock { $0.append(transaction.token.sequence) }
        }
        var options = HistoryConsumer.Options()
        options.pollInterval = .milliseconds(100)
        let contexts: [any MergeContext] = [mirror, closure]
        let consumers = contexts.map {
            HistoryConsumer(
                fixture.store, name: $0.name, contexts: [$0], broker: fixture.broker, options: options)
        }
        let resyncs = Locked<[String: [HistoryResync]]>([:])
        for consumer in consumers {
            let name = consumer.name
            await consumer.addResyncHook { resync in resyncs.withLock { $0[name, default: []].append(resync) } }
        }
        @Sendable func areAll(at token: HistoryToken) async throws {
            for consumer in consumers { try await consumer.waitUntilCaughtUp(to: token) }
            try await until { try await fixture.store.consumers().map(\.acknowledged) == [token, token] }
        }
        let late = try await withServices(publisher, cleaner, consumers[0], consumers[1]) {
            let early = try await fixture.insert(5)
            try await areAll(at: early)
            let copy = fixture.temporary.directory.file("copy.db")
            let backup = try await FinishedProcess.run("/usr/bin/sqlite3", [fixture.path, ".backup '\(copy)'"])
            #expect(backup.ending == .exited(0))
            let late = try await fixture.insert(20)
            try await areAll(at: late)
            #expect(mirror.rows(of: "item").count == 25)
            #expect(seen.withLock { $0 } == Array(1...26))

            for companion in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: fixture.path + companion) }
            #expect(rename(copy, fixture.path) == 0)

            // The cleaner begins the epoch; then the view is that of the copy.
            try await until { try await fixture.store.currentToken().epoch == 2 }
            for consumer in consumers { try await until { consumer.status().token?.epoch == 2 } }
            try await until { mirror.rows(of: "item").count == 5 }
            // What is written now is written to the file that is there, and arrives.
            let next = try await fixture.insert(3)
            #expect(next.sequence == early.sequence + 3)
            try await areAll(at: next)
            try await publisher.waitUntilPublished(through: next)
            #expect(mirror.rows(of: "item").count == 8)
            #expect(await cleaner.status().newEpochs == 1)
            #expect(await cleaner.status().removed == 0)
            return late
        }
        for (name, all) in resyncs.withLock({ $0 }) {
            // Once; twice only where the new epoch took longer than a consumer waits for it.
            #expect([[2], [1, 2]].contains(all.map(\.token.epoch)), "\(name)")
            #expect(all.first?.lost == late)
            #expect(all.last?.reloaded == (name == "mirror" ? ["mirror"] : []))
            #expect(all.last?.missed == (name == "closure" ? ["closure"] : []))
        }
        #expect(resyncs.withLock { $0.keys.sorted() } == ["closure", "mirror"])
        // What cannot be loaded gets everything that is there again.
        #expect(seen.withLock { Array($0.prefix(26)) } == Array(1...26))
        #expect(seen.withLock { Array($0.suffix(9)) } == Array(1...9))
        // Nobody has purged anything.
        #expect(try await fixture.temporary.sequences() == Array(1...9))
    }

    @Test(
        "P22: a reader that pauses for seconds among 200,000 transactions, another process writes: the log stays small"
    )
    func writeAheadLog() async throws {
        let temporary = try await TemporaryStore(schema: PublishingFixture.schema)
        let store = temporary.store
        _ = try await store.writeRepeatedly(200_000, from: 0) { db, _ in
            try db.execute("INSERT INTO item(v) VALUES ('a transaction of about a hundred bytes')")
        }
        let head = try await store.currentToken()
        let log = temporary.path + "-wal"
        let (ends, sizes, written) = (Locked<[Int64]>([]), Locked<[Int]>([]), Locked<[Int64]>([]))
        let context = ClosureContext("slow") { batch in
            ends.withLock { $0.append(batch.token.sequence) }
            let isPausing = [10, 40].contains(batch.token.sequence / 4000)
            let before = try await store.currentToken().sequence
            let end = ContinuousClock.now + (isPausing ? .seconds(2) : .zero)
            repeat {
                let size = try FileManager.default.attributesOfItem(atPath: log)[.size] as? Int
                sizes.withLock { $0.append(size ?? .max) }
                if isPausing { try await Task.sleep(for: .milliseconds(20)) }
            } while ContinuousClock.now < end
            let after = try await store.currentToken().sequence
            if isPausing { written.withLock { $0.append(after - before) } }
        }
        var options = HistoryConsumer.Options()
        options.pageSize = 4000
        let consumer = HistoryConsumer(store, name: "slow", contexts: [context], options: options)
        let writer = try ChildProcess(ChildProcess.built("TestAgent"), ["consumer", "write", temporary.path])
        try await withServices(consumer) { try await consumer.waitUntilCaughtUp(to: head) }
        try writer.write(line: "end")
        #expect(await writer.wait() == .exited(0))
        // The head was in the 51st page; the first 50 were full.
        #expect(ends.withLock { Array($0.prefix(50)) } == (1...50).map { $0 * 4000 })
        #expect(ends.withLock { $0.count { $0 < head.sequence } } == 50)
        print("written in the pauses: \(written.withLock { $0 }), log up to \(sizes.withLock { $0.max() ?? 0 })")
        #expect(written.withLock { $0.count } == 2)
        #expect(written.withLock { $0.min() ?? 0 } > 100)
        #expect(sizes.withLock { $0.max() ?? .max } < 64 << 20)
    }
}
