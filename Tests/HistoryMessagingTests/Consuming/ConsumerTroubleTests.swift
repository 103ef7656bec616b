import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

@testable import HistoryMessaging

/// What goes wrong in between: a full disk, commands that come at the wrong time, hooks that throw what they should not.
@Suite("Consumer in trouble", .timeLimit(.minutes(3)))
struct ConsumerTroubleTests {
    private struct NoSpace: Error, CustomStringConvertible { let description = "no space left" }

    // MARK: The token's file

    @Test("A token that cannot be written is told to nobody before it can be")
    func fullDisk() async throws {
        let fixture = try await ConsumerFixture()
        let context = RecordingContext()
        let (isFull, refused) = (Locked(false), Locked(0))
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [context],
            options: fixture.options { options in
                options.attemptsBeforeStall = 1000
                options.onTokenWrite = {
                    guard isFull.withLock({ $0 }) else { return }
                    refused.withLock { $0 += 1 }
                    throw NoSpace()
                }
            })
        let first = try await fixture.insert()
        try await withServices(consumer) {
            try await consumer.waitUntilCaughtUp(to: first)
            try await until { consumer.status().acknowledged == first }
            isFull.withLock { $0 = true }
            let second = try await fixture.insert()
            try await until { refused.withLock({ $0 }) >= 4 }
            #expect(context.sequences == [1, 2, 3])
            #expect(consumer.status().token == first)
            #expect(consumer.status().acknowledged == first)
            #expect(try await fixture.store.consumers().map(\.acknowledged) == [first])
            isFull.withLock { $0 = false }
            try await consumer.waitUntilCaughtUp(to: second)
            try await until { consumer.status().acknowledged == second }
        }
        #expect(context.sequences == [1, 2, 3])
    }

    @Test("A rewind whose token cannot be written leaves everything where it was")
    func fullDiskWhileRewinding() async throws {
        let fixture = try await ConsumerFixture()
        let context = RecordingContext()
        context.fail(at: [2])
        let isFull = Locked(false)
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [context],
            options: fixture.options { options in
                options.attemptsBeforeStall = 1
                options.onTokenWrite = { if isFull.withLock({ $0 }) { throw NoSpace() } }
            })
        let head = try await fixture.insert(2)
        try await withServices(consumer) {
            #expect(try await stalled(consumer) == "cannot merge 2")
            isFull.withLock { $0 = true }
            await #expect(throws: NoSpace.self) { try await consumer.rewind(to: .now) }
            isFull.withLock { $0 = false }
            context.fail(at: [])
            consumer.retry()
            try await consumer.waitUntilCaughtUp(to: head)
        }
        #expect(context.sequences == [1, 2, 3])
    }

    // MARK: Skipping

    /// Calls a closure with each message.
    private struct WatchingLogger: HistoryLogger {
        let call: @Sendable (String) -> Void
        func log(_ level: HistoryLogLevel, _ entry: () -> HistoryLogEntry) { call(entry().message) }
    }

    @Test("A skip that comes when everything is merged is refused, and skips nothing later")
    func lateSkip() async throws {
        let fixture = try await ConsumerFixture()
        let context = RecordingContext()
        context.fail(at: [2])
        let isAsked = Locked(false)
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [context],
            options: fixture.options { options in
                options.attemptsBeforeStall = 2
                options.logger = WatchingLogger { if $0.hasPrefix("skip:") { isAsked.withLock { $0 = true } } }
            })
        let head = try await fixture.insert()
        let other = try await SQLiteConnection.open(fixture.temporary.path)
        try await withServices(consumer) {
            #expect(try await stalled(consumer) == "cannot merge 2")
            // The record of the skip waits for this one.
            try await other.run { db in try db.execute("BEGIN IMMEDIATE") }
            async let skip: Void = consumer.skip(reason: "too late")
            try await until { isAsked.withLock { $0 } }
            context.fail(at: [])
            consumer.retry()
            try await consumer.waitUntilCaughtUp(to: head)
            try await other.run { db in try db.execute("COMMIT") }
            do {
                try await skip
                Issue.record("it was taken")
            } catch let error as MessagingError {
                #expect(error.code == .invalid)
            }
            context.fail(at: [4])
            let next = try await fixture.insert(3)
            _ = try await stalled(consumer)
            context.fail(at: [])
            consumer.retry()
            try await consumer.waitUntilCaughtUp(to: next)
        }
        await other.close()
        #expect(context.sequences == [1, 2, 3, 4, 5])
        #expect(consumer.status().counts.skipped == 0)
    }

    @Test("A skip that fails says so, and the consumer waits on")
    func failingSkip() async throws {
        let fixture = try await ConsumerFixture()
        let durable = try await FileContext(fixture.temporary.directory.file("index.db"))
        let context = RecordingContext()
        context.fail(at: [2])
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [context, durable],
            options: fixture.options { $0.attemptsBeforeStall = 2 })
        let head = try await fixture.insert(2)
        try await withServices(consumer) {
            #expect(try await stalled(consumer) == "cannot merge 2")
            durable.fail(true)
            await #expect(throws: FileContext.Failure.self) { try await consumer.skip(reason: "bad") }
            #expect(try await stalled(consumer) == "cannot merge 2")
            durable.fail(false)
            try await consumer.skip(reason: "bad")
            #expect(consumer.status().counts.skipped == 1)
            try await consumer.waitUntilCaughtUp(to: head)
        }
        #expect(context.sequences == [1, 3])
        #expect(try await durable.contents().effects == [1: 1, 3: 1])
    }

    // MARK: Cancellations that are none

    @Test("A hook that throws a cancellation of its own has failed like any other")
    func strayCancellation() async throws {
        let fixture = try await ConsumerFixture()
        let context = RecordingContext()
        let consumer = HistoryConsumer(fixture.store, name: "c", contexts: [context], options: fixture.options())
        let calls = Locked(0)
        // As the documentation shows it.
        await consumer.observe("article", .insert) { print("new:", $0.count) }
        await consumer.observe("article", .insert) { _ in
            let isFirst = calls.withLock { calls in
                calls += 1
                return calls == 1
            }
            if isFirst { throw CancellationError() }
        }
        let head = try await fixture.insert()
        try await withServices(consumer) { try await consumer.waitUntilCaughtUp(to: head) }
        #expect(calls.withLock { $0 } == 2)
        #expect(consumer.status().counts.failures == 1)
    }

    // MARK: Rewinding a start

    /// A view whose loading fails.
    private final class FailingView: MergeContext {
        let name = "view"
        let canLoad = true
        let state = Locked((isFailing: true, loads: 0))

        func load(_ snapshot: HistorySnapshot) async throws {
            let isFailing = state.withLock { state in
                state.loads += 1
                return state.isFailing
            }
            if isFailing { throw NoSpace() }
        }

        func merge(_ batch: HistoryBatch) async throws {}
    }

    @Test("A rewind while the start fails is one attempt more, and is told what is wrong")
    func rewindWhileStarting() async throws {
        let fixture = try await ConsumerFixture()
        let view = FailingView()
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [view], options: fixture.options { $0.attemptsBeforeStall = 1 })
        let head = try await fixture.insert(2)
        try await withServices(consumer) {
            #expect(try await stalled(consumer) == "no space left")
            await #expect(throws: NoSpace.self) { try await consumer.rewind(to: .now) }
            #expect(try await stalled(consumer) == "no space left")
            #expect(view.state.withLock { $0.loads } == 2)
            view.state.withLock { $0.isFailing = false }
            try await consumer.rewind(to: .now)
            try await consumer.waitUntilCaughtUp(to: head)
        }
        #expect(view.state.withLock { $0.loads } == 3)
    }

    @Test("A place that it was rewound to while it was stopped, and that is gone, is replaced by another rewind")
    func badPendingStart() async throws {
        let fixture = try await ConsumerFixture()
        let context = RecordingContext()
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [context], options: fixture.options { $0.attemptsBeforeStall = 1 })
        let first = try await fixture.insert()
        try await fixture.insert(2)
        try await consumer.rewind(to: .after(first))
        try await fixture.store.deleteHistory(before: .sequence(4))
        try await withServices(consumer) {
            #expect(try await stalled(consumer).hasPrefix("tokenExpired"))
            try await consumer.rewind(to: .now)
            try await consumer.waitUntilCaughtUp(to: fixture.insert())
        }
        #expect(context.sequences == [5])
    }

    @Test("A rewind while it was stopped is carried out by the first run that comes so far, once")
    func pendingStart() async throws {
        let fixture = try await ConsumerFixture()
        let (context, isFull) = (RecordingContext(), Locked(false))
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [context],
            options: fixture.options { options in
                options.attemptsBeforeStall = 1
                options.onTokenWrite = { if isFull.withLock({ $0 }) { throw NoSpace() } }
            })
        let head = try await fixture.insert(2)
        try await withServices(consumer) { try await consumer.waitUntilCaughtUp(to: head) }
        try await consumer.rewind(to: .beginning)
        // This run finds no place at all.
        isFull.withLock { $0 = true }
        let reason = try await withServices(consumer) { try await stalled(consumer) }
        #expect(reason == "no space left")
        #expect(context.sequences == [1, 2, 3])
        isFull.withLock { $0 = false }
        try await withServices(consumer) { try await consumer.waitUntilCaughtUp(to: head) }
        #expect(context.sequences == [1, 2, 3, 1, 2, 3])
        try await withServices(consumer) { try await consumer.waitUntilCaughtUp(to: fixture.insert()) }
        #expect(context.sequences == [1, 2, 3, 1, 2, 3, 4])
    }

    @Test("A rewind that finds nothing running is there for the run that begins at the same moment")
    func pendingStartOnBoard() async throws {
        let board = ConsumerBoard()
        try await board.rewind(to: .beginning)
        #expect(board.begin())
        #expect(board.pendingStart == .beginning)
        // Another one, while the run ends, is not settled by what the run has done.
        async let stop: Void = board.stop()
        try await until { board.isStopping }
        try await board.rewind(to: .now)
        board.settle(pendingStart: .beginning)
        #expect(board.pendingStart == .now)
        board.end(nil)
        await stop
        #expect(board.begin())
        #expect(board.pendingStart == .now)
        board.settle(pendingStart: .now)
        #expect(board.pendingStart == nil)
        board.end(nil)
    }

    // MARK: Deliveries

    @Test("What becomes of a delivery is decided by rules alone")
    func fates() async throws {
        let storeID = try await ConsumerFixture().store.storeID
        func token(_ epoch: Int64, _ sequence: Int64) -> HistoryToken {
            HistoryToken(storeID: storeID, epoch: epoch, sequence: sequence, nonce: 1)
        }
        func fate(_ arrived: HistoryToken, head: HistoryToken?) -> ArrivalFate {
            ArrivalFate(of: arrived, through: token(2, 5), head: head)
        }
        for head in [nil, token(2, 5), token(2, 9)] {
            #expect(fate(token(2, 5), head: head) == .merged)
            #expect(fate(token(1, 8), head: head) == .merged)
        }
        #expect(fate(token(2, 6), head: token(2, 9)) == .stays)
        #expect(fate(token(2, 6), head: nil) == .stays)
        #expect(fate(token(2, 6), head: token(2, 5)) == .beyondHead)
        #expect(fate(token(3, 1), head: token(2, 9)) == .beyondHead)
        // The history goes on in another epoch: the consumer will find its place there.
        #expect(fate(token(3, 1), head: token(3, 1)) == .stays)
    }

    @Test("A rewind acks no delivery whose transaction is not merged")
    func unmergedDeliveries() async throws {
        let fixture = try await BrokerFixture()
        let names = fixture.names
        let context = RecordingContext()
        context.fail(at: [3])
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [context], broker: fixture.broker,
            options: fixture.options { $0.attemptsBeforeStall = 2 })
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        try await fixture.connected { try await $0.declare(names.consuming(as: "c")) }
        try await withServices(publisher, consumer) {
            try await until { consumer.status().counts.deliveries == 1 }
            let second = try await fixture.fixture.insert()
            let third = try await fixture.fixture.insert()
            #expect(try await stalled(consumer) == "cannot merge 3")
            try await until { consumer.status().counts.deliveries == 3 }
            try await consumer.rewind(to: .after(second))
            #expect(try await stalled(consumer) == "cannot merge 3")
            // What is merged is acked, the third one is not.
            try await fixture.wait(forUnsettled: 1, in: names.queue(of: "c"))
            context.fail(at: [])
            consumer.retry()
            try await consumer.waitUntilCaughtUp(to: third)
            try await fixture.wait(forUnsettled: 0, in: names.queue(of: "c"))
        }
        #expect(consumer.status().counts.beyondHead == 0)
    }
}

extension ConsumerTroubleTests {
    @Test("A delivery that is too large is rejected unread, and counted")
    func oversized() async throws {
        let fixture = try await BrokerFixture()
        let names = fixture.names
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [RecordingContext()], broker: fixture.broker,
            options: fixture.options { $0.largestMessage = 1 << 20 })
        try await fixture.connected { connection in
            try await connection.declare(names.consuming(as: "c"))
            let address = AMQPAddress(exchange: names.history, routingKey: names.historyKey(author: "orders"))
            let large = AMQPMessage([UInt8](repeating: 0x20, count: 2 << 20))
            let publisher = await connection.publisher()
            for message in [large, AMQPMessage([])] {
                #expect(try await publisher.publish(message, to: address) == .confirmed)
            }
        }
        try await withServices(consumer) { try await until { consumer.status().counts.dead == 1 } }
        #expect(consumer.status().counts.oversized == 1)
        #expect(consumer.status().counts.deliveries == 1)
    }
}

/// The queue of dead messages cannot be written to.
@Suite("Consumer and an alarm", .serialized, .timeLimit(.minutes(3)))
struct ConsumerAlarmTests {
    @Test("While an alarm keeps a refused message from the dead ones, the others are read and acked")
    func alarm() async throws {
        let broker = try await PrivateBroker.start()
        let fixture = try await BrokerFixture(on: broker)
        let names = fixture.names
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [RecordingContext()], broker: fixture.broker,
            options: fixture.options())
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        try await fixture.connected { connection in
            try await connection.declare(names.consuming(as: "c"))
            let poison = AMQPAddress(exchange: names.history, routingKey: names.historyKey(author: "orders"))
            let poisoner = await connection.publisher()
            for _ in 0..<60 { #expect(try await poisoner.publish(AMQPMessage([]), to: poison) == .confirmed) }
        }
        let head = try await fixture.fixture.insert(2)
        try await withServices(publisher) { try await publisher.waitUntilPublished(through: head) }
        try await fixture.wait(for: 63, in: names.queue(of: "c"))
        try await broker.setMemoryAlarm(true)
        try await withServices(consumer) {
            try await until { consumer.status().counts.deliveries >= 63 }
            try await consumer.waitUntilCaughtUp(to: head)
            // The good ones are acked; the others wait, but for one or two that are sent before the broker stops reading.
            while try await !(56...60).contains(
                broker.unsettled(names.queue(of: "c"), host: fixture.host.name))
            { try await Task.sleep(for: .milliseconds(20)) }
            #expect(consumer.status().counts.dead < 40)
            try await broker.setMemoryAlarm(false)
            try await until { consumer.status().counts.dead == 60 }
            try await fixture.wait(forUnsettled: 0, in: names.queue(of: "c"))
        }
        try await fixture.wait(for: 60, in: names.deadQueue)
        #expect(consumer.status().counts.dead == 60)
        await broker.shutDown()
    }
}
