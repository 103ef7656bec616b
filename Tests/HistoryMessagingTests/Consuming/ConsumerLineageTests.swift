import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

@testable import HistoryMessaging

@Suite("A consumer whose history was lost", .timeLimit(.minutes(3)))
struct ConsumerLineageTests {
    private struct NoSpace: Error {}

    @Test("P28: a resync that fails half way is finished before anything is merged: hooks miss nothing")
    func halfWay() async throws {
        let fixture = try await ConsumerFixture()
        let store = fixture.store
        let mirror = MirrorContext()
        // How many writes of the token fail.
        let failing = Locked(0)
        let options = fixture.options { options in
            options.attemptsBeforeStall = 10
            options.onTokenWrite = {
                let fails = failing.withLock { left in
                    defer { left = max(0, left - 1) }
                    return left > 0
                }
                if fails { throw NoSpace() }
            }
        }
        let consumer = HistoryConsumer(store, name: "c", contexts: [mirror], options: options)
        let merged = Locked<[Int64]>([])
        await consumer.addMergeHook { input in
            merged.withLock { $0 += input.batch.transactions.map(\.token.sequence) }
            return .continue
        }
        let resyncs = Locked<[HistoryResync]>([])
        await consumer.addResyncHook { resync in resyncs.withLock { $0.append(resync) } }
        try await withServices(consumer) {
            try await consumer.waitUntilCaughtUp(to: store.currentToken())
            try await consumer.waitUntilCaughtUp(to: fixture.insert(5))
            #expect(merged.withLock { $0 } == [2, 3, 4, 5, 6])
            failing.withLock { $0 = 3 }
            // What an older copy looks like.
            try await store.coordinate { db, _ in try db.execute("DELETE FROM history_transaction WHERE sequence > 3") }
            try await until { resyncs.withLock { !$0.isEmpty } }
            try await consumer.waitUntilCaughtUp(to: fixture.insert(2))
        }
        #expect(failing.withLock { $0 } == 0)
        #expect(merged.withLock { $0 } == [2, 3, 4, 5, 6, 4, 5])
        #expect(resyncs.withLock { $0.map(\.lost?.sequence) } == [6])
        #expect(resyncs.withLock { $0.map(\.token.sequence) } == [3])
        #expect(resyncs.withLock { $0.map(\.token.epoch) } == [2])
        #expect(try await mirror.rows(of: "article") == MirrorContext.rows(of: "article", in: store))
    }

    @Test("Whoever waits for a token of an ended epoch goes on at its sequence, or where there is no more")
    func endedEpoch() async throws {
        let board = ConsumerBoard()
        #expect(board.begin())
        let store = try await TemporaryStore().store.storeID
        func token(_ epoch: Int64, _ sequence: Int64) -> HistoryToken {
            HistoryToken(storeID: store, epoch: epoch, sequence: sequence, nonce: 1)
        }
        let journal = Journal()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for sequence in [4, 9] as [Int64] {
                group.addTask {
                    try await board.wait(for: token(1, sequence))
                    journal.add("\(sequence)")
                }
            }
            // They have begun to wait.
            try await until { board.waiting == 2 }
            board.reached(token(2, 3))
            #expect(board.waiting == 2)
            board.reached(token(2, 4))
            #expect(board.waiting == 1)
            board.reached(token(2, 5), isAtEnd: true)
            #expect(board.waiting == 0)
            try await group.waitForAll()
        }
        #expect(journal.entries.sorted() == ["4", "9"])
        board.end(nil)
    }

    @Test("A retry where nothing has failed makes nobody look at the store again and again")
    func needlessRetry() async throws {
        let fixture = try await ConsumerFixture()
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [RecordingContext()],
            options: fixture.options())
        try await withServices(consumer) {
            try await consumer.waitUntilCaughtUp(to: fixture.insert())
            consumer.retry()
            // It is carried out, and over: as long as it is wanted, the store is looked at again at once.
            try await until { !consumer.isInterrupted }
        }
    }
}
