import Foundation
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

@testable import HistoryMessaging

@Suite("Consumer's resync", .timeLimit(.minutes(2)))
struct ConsumerResyncTests {
    /// Runs a consumer until everything is merged; gives what it announced.
    private func run(
        _ fixture: ConsumerFixture, _ contexts: [any MergeContext], store: HistoryStore? = nil
    ) async throws -> (status: ConsumerStatus, resyncs: [HistoryResync]) {
        let store = store ?? fixture.store
        let consumer = HistoryConsumer(store, name: "c", contexts: contexts, options: fixture.options())
        let resyncs = Locked<[HistoryResync]>([])
        await consumer.addResyncHook { resync in resyncs.withLock { $0.append(resync) } }
        try await withServices(consumer) { try await consumer.waitUntilCaughtUp(to: store.currentToken()) }
        return (consumer.status(), resyncs.withLock { $0 })
    }

    private func tokenFile(_ fixture: ConsumerFixture) -> String { "\(fixture.temporary.path)-tokens/c.token" }

    @Test("P17: one damaged slot: the other one's token, without any resync")
    func oneSlot() async throws {
        let fixture = try await ConsumerFixture()
        let context = RecordingContext()
        try await fixture.insert(2)
        _ = try await run(fixture, [context])
        try await fixture.insert()
        _ = try await run(fixture, [context])
        #expect(context.sequences == [1, 2, 3, 4])
        var bytes = [UInt8](try Data(contentsOf: URL(filePath: tokenFile(fixture))))
        let index = try #require(TokenLayout.read(bytes)).index
        bytes[TokenLayout.offset(ofSlot: index) + 50] ^= 1
        try Damage.write(bytes, tokenFile(fixture))
        let result = try await run(fixture, [context])
        #expect(result.resyncs == [])
        // At least once for what keeps no token of its own: the last batch comes again.
        #expect(context.sequences == [1, 2, 3, 4, 4])
    }

    @Test("P17: a damaged file: contexts that can be loaded are; it is announced and counted", arguments: Damage.all)
    func damagedWithSnapshot(_ damage: Damage) async throws {
        let fixture = try await ConsumerFixture()
        let mirror = MirrorContext()
        try await fixture.insert(2)
        _ = try await run(fixture, [mirror])
        try damage.apply(tokenFile(fixture))
        try await fixture.insert()
        let result = try await run(fixture, [mirror])
        #expect(mirror.wholeLoads == 2)
        #expect(mirror.sequences == [])
        #expect(try await mirror.rows(of: "article") == MirrorContext.rows(of: "article", in: fixture.store))
        #expect(result.status.counts.resyncs == 1)
        #expect(result.resyncs.map(\.reloaded) == [["mirror"]])
        #expect(result.resyncs.first?.reason == "the token's file is damaged: \(damage.reason)")
        // Not again.
        #expect(try await run(fixture, [mirror]).resyncs == [])
    }

    @Test("P17: a damaged file and a context that cannot be loaded: an error with the remedy, and nothing merged again")
    func damagedWithoutSnapshot() async throws {
        let fixture = try await ConsumerFixture()
        let context = RecordingContext()
        try await fixture.insert(2)
        _ = try await run(fixture, [context])
        try Damage.all[0].apply(tokenFile(fixture))
        let consumer = HistoryConsumer(fixture.store, name: "c", contexts: [context], options: fixture.options())
        let error = await #expect(throws: MessagingError.self) { try await consumer.run() }
        #expect(error?.code == .damagedToken)
        #expect(error?.message.contains("the contexts recording") == true)
        #expect(context.sequences == [1, 2, 3])
    }

    @Test("P25, P30: purged history: what can be loaded is, what cannot goes on from the oldest token and is named")
    func expired() async throws {
        let fixture = try await ConsumerFixture()
        let (mirror, recording) = (MirrorContext(), RecordingContext())
        let first = try await fixture.insert(2)
        _ = try await run(fixture, [mirror, recording])
        let middle = try await fixture.insert(3)
        try await fixture.store.deleteHistory(before: .token(middle))
        try await fixture.insert()
        let result = try await run(fixture, [mirror, recording])
        #expect(recording.sequences == [6, 7])
        #expect(try await mirror.rows(of: "article") == MirrorContext.rows(of: "article", in: fixture.store))
        #expect(result.status.counts.losses == 1)
        #expect(result.resyncs.map(\.lost) == [first])
        #expect(result.resyncs.map(\.missed) == [["recording"]])
        #expect(result.resyncs.first?.reason.hasPrefix("tokenExpired") == true)
    }

    @Test("P30: a purge between two pages: tokenExpired and a resync, never a hole")
    func purgedBetweenPages() async throws {
        let fixture = try await ConsumerFixture()
        try await fixture.insert(9)
        let purged = Locked(false)
        let recording = RecordingContext()
        let store = fixture.store
        let consumer = HistoryConsumer(
            store, name: "c", contexts: [recording], options: fixture.options { $0.pageSize = 2 })
        await consumer.addMergeHook { input in
            guard input.batch.token.sequence == 4, purged.withLock({ !$0 }) else { return .continue }
            purged.withLock { $0 = true }
            try await store.deleteHistory(before: .sequence(8))
            return .continue
        }
        let resyncs = Locked<[HistoryResync]>([])
        await consumer.addResyncHook { resync in resyncs.withLock { $0.append(resync) } }
        try await withServices(consumer) { try await consumer.waitUntilCaughtUp(to: store.currentToken()) }
        #expect(recording.sequences == [1, 2, 3, 4, 8, 9, 10])
        #expect(resyncs.withLock { $0.map(\.lost?.sequence) } == [4])
        #expect(resyncs.withLock { $0.map(\.token.sequence) } == [7])
    }

    /// A store's files, as they are now, without anything that is held by processes.
    private func copy(_ fixture: ConsumerFixture, to directory: TemporaryDirectory) throws -> String {
        let path = directory.file("copy.db")
        for suffix in ["", "-wal"] where FileManager.default.fileExists(atPath: fixture.temporary.path + suffix) {
            try? FileManager.default.removeItem(atPath: path + suffix)
            try FileManager.default.copyItem(atPath: fixture.temporary.path + suffix, toPath: path + suffix)
        }
        return path
    }

    @Test("P27: the log cut back to its last sync: the lost lineage is noticed, nothing merged that the store lacks")
    func cutBack() async throws {
        let fixture = try await ConsumerFixture()
        let directory = try TemporaryDirectory()
        try await fixture.insert(3)
        let (mirror, recording) = (MirrorContext(), RecordingContext())
        // What has reached the disk.
        let path = try copy(fixture, to: directory)
        try await fixture.insert(4)
        var options = fixture.options()
        options.tokenDirectory = directory.file("tokens")
        let before = HistoryConsumer(fixture.store, name: "c", contexts: [mirror, recording], options: options)
        try await withServices(before) { try await before.waitUntilCaughtUp(to: fixture.store.currentToken()) }
        #expect(mirror.rows(of: "article").count == 7)
        // After the power loss: other transactions in their place.
        let store = try await HistoryStore.open(path, author: "orders")
        try await fixture.insert(2, into: store)
        let after = HistoryConsumer(store, name: "c", contexts: [mirror, recording], options: options)
        let resyncs = Locked<[HistoryResync]>([])
        await after.addResyncHook { resync in resyncs.withLock { $0.append(resync) } }
        try await withServices(after) { try await after.waitUntilCaughtUp(to: store.currentToken()) }
        #expect(try await mirror.rows(of: "article") == MirrorContext.rows(of: "article", in: store))
        #expect(mirror.rows(of: "article").count == 5)
        #expect(resyncs.withLock { $0.count } == 1)
        #expect(resyncs.withLock { $0.first?.reason.hasPrefix("tokenInvalid") } == true)
        #expect(after.status().token?.sequence == 6)
    }

    @Test("P28: an older copy is restored under a running consumer: it notices, and shows what the copy holds")
    func restored() async throws {
        let fixture = try await ConsumerFixture()
        let directory = try TemporaryDirectory()
        try await fixture.insert(2)
        let older = directory.file("older.db")
        // By other processes: one that opens and closes the file here would drop the locks of all connections.
        @Sendable func sqlite(_ command: String) async throws {
            let process = try await FinishedProcess.run("/usr/bin/sqlite3", [fixture.temporary.path, command])
            try #require(process.ending == .exited(0), "\(process.error)")
        }
        try await sqlite(".backup '\(older)'")
        try await fixture.insert(5)
        let mirror = MirrorContext()
        let durable = try await FileContext(directory.file("index.db"))
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [mirror, durable], options: fixture.options { $0.start = .beginning })
        let resyncs = Locked<[HistoryResync]>([])
        await consumer.addResyncHook { resync in resyncs.withLock { $0.append(resync) } }
        try await withServices(consumer) {
            try await consumer.waitUntilCaughtUp(to: fixture.store.currentToken())
            #expect(mirror.rows(of: "article").count == 7)
            // Over the file that is open here.
            try await sqlite(".restore '\(older)'")
            try await until { resyncs.withLock { !$0.isEmpty } }
            // Nobody else is there to begin it.
            let head = try await fixture.store.currentToken()
            #expect(head.epoch == 2)
            #expect(head.sequence == 3)
            try await consumer.waitUntilCaughtUp(to: head)
            #expect(mirror.rows(of: "article").count == 2)
            let next = try await fixture.insert()
            #expect(next.sequence == 4)
            try await consumer.waitUntilCaughtUp(to: next)
        }
        #expect(resyncs.withLock { $0.map(\.missed) } == [["file"]])
        #expect(resyncs.withLock { $0.map(\.lost?.sequence) } == [8])
        #expect(mirror.wholeLoads == 2)
        #expect(consumer.status().token?.epoch == 2)
        #expect(try await durable.durableToken() == consumer.status().token)
        #expect(try await mirror.rows(of: "article") == MirrorContext.rows(of: "article", in: fixture.store))
    }
}
