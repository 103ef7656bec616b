import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

@testable import HistoryMessaging

@Suite("Consumer's failures", .timeLimit(.minutes(2)))
struct ConsumerFailureTests {
    @Test("After the configured attempts it is stalled, says why, and goes on when told to retry")
    func retry() async throws {
        let fixture = try await ConsumerFixture()
        let context = RecordingContext()
        context.fail(at: [3])
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [context], options: fixture.options { $0.attemptsBeforeStall = 4 })
        let head = try await fixture.insert(3)
        try await withServices(consumer) {
            #expect(try await stalled(consumer) == "cannot merge 3")
            // The first attempt was at all of them; then each alone.
            #expect(consumer.status().counts.failures == 5)
            #expect(consumer.status().token?.sequence == 2)
            #expect(context.sequences == [1, 2])
            context.fail(at: [])
            consumer.retry()
            try await consumer.waitUntilCaughtUp(to: head)
        }
        #expect(context.sequences == [1, 2, 3, 4])
        #expect(consumer.status().counts.skipped == 0)
    }

    @Test("A skip passes one transaction only, and is recorded")
    func skip() async throws {
        let fixture = try await ConsumerFixture()
        let context = RecordingContext()
        context.fail(at: [3, 5])
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [context], options: fixture.options { $0.attemptsBeforeStall = 2 })
        let head = try await fixture.insert(5)
        try await withServices(consumer) {
            #expect(try await stalled(consumer) == "cannot merge 3")
            try await consumer.skip(reason: "known bad")
            // It returns when that is done.
            #expect(consumer.status().counts.skipped == 1)
            #expect(try await stalled(consumer) == "cannot merge 5")
            try await consumer.skip(reason: "also bad")
            try await consumer.waitUntilCaughtUp(to: head)
            let error = await #expect(throws: MessagingError.self) { try await consumer.skip(reason: "nothing") }
            #expect(error?.code == .invalid)
        }
        #expect(context.sequences == [1, 2, 4, 6])
        #expect(consumer.status().counts.skipped == 2)
        let records = try await fixture.store.read { db in
            try db.query("SELECT kind || ': ' || detail FROM history_audit ORDER BY id") {
                try $0.get(0, as: String.self)
            }
        }
        #expect(
            records == ["skip: consumer c after sequence 2: known bad", "skip: consumer c after sequence 4: also bad"])
    }

    @Test("A stalled consumer stops, and tries again at the next run")
    func stopWhileStalled() async throws {
        let fixture = try await ConsumerFixture()
        let context = RecordingContext()
        context.fail(at: [1])
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [context], options: fixture.options { $0.attemptsBeforeStall = 1 })
        let reason = try await withServices(consumer) { try await stalled(consumer) }
        #expect(reason == "cannot merge 1")
        context.fail(at: [])
        let head = try await fixture.store.currentToken()
        try await withServices(consumer) { try await consumer.waitUntilCaughtUp(to: head) }
        #expect(context.sequences == [1])
    }

    @Test("Rewinding past what fails frees a stalled consumer")
    func rewindWhileStalled() async throws {
        let fixture = try await ConsumerFixture()
        let context = RecordingContext()
        context.fail(at: [2])
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [context], options: fixture.options { $0.attemptsBeforeStall = 1 })
        try await fixture.insert(2)
        try await withServices(consumer) {
            #expect(try await stalled(consumer) == "cannot merge 2")
            try await consumer.rewind(to: .now)
            try await consumer.waitUntilCaughtUp(to: fixture.insert())
        }
        #expect(context.sequences == [4])
    }

    @Test(
        "What has failed once, and is merged, comes in whole batches when it is rewound to", arguments: [false, true])
    func rewindAfterFailure(isSkipped: Bool) async throws {
        let fixture = try await ConsumerFixture()
        let context = RecordingContext()
        context.fail(at: [3])
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [context], options: fixture.options { $0.attemptsBeforeStall = 2 })
        let head = try await fixture.insert(2)
        try await withServices(consumer) {
            #expect(try await stalled(consumer) == "cannot merge 3")
            if isSkipped { try await consumer.skip(reason: "bad") }
            context.fail(at: [])
            consumer.retry()
            try await consumer.waitUntilCaughtUp(to: head)
            let batches = consumer.status().counts.batches
            #expect(batches == (isSkipped ? 2 : 3))
            let merged = context.sequences.count
            try await consumer.rewind(to: .beginning)
            try await until { context.sequences.count == merged + 3 }
            try await until { consumer.status().token == head }
            #expect(consumer.status().counts.batches == batches + 1)
        }
    }

    @Test("Backoff, isolation and stall are decided by rules alone")
    func rules() {
        var failures = FailureStateMachine(
            backoff: Backoff(first: .seconds(1), longest: .seconds(4)), attemptsBeforeStall: 4)
        #expect(failures.pageSize(after: 10, usual: 4000) == 4000)
        let action1 = failures.failed(batchThrough: 20, mayStall: true, random: 1)
        #expect(action1 == .retry(attempt: 1, after: .seconds(1)))
        #expect(failures.pageSize(after: 10, usual: 4000) == 1)
        #expect(failures.pageSize(after: 19, usual: 4000) == 1)
        #expect(failures.pageSize(after: 20, usual: 4000) == 4000)
        let action2 = failures.failed(batchThrough: 11, mayStall: true, random: 1)
        #expect(action2 == .retry(attempt: 2, after: .seconds(2)))
        let action3 = failures.failed(batchThrough: 11, mayStall: true, random: 1)
        #expect(action3 == .retry(attempt: 3, after: .seconds(4)))
        let action4 = failures.failed(batchThrough: 11, mayStall: true, random: 1)
        #expect(action4 == .stall(attempts: 4))
        let action5 = failures.failed(batchThrough: nil, mayStall: false, random: 1)
        #expect(action5 == .retry(attempt: 5, after: .seconds(4)))
        failures.reset()
        failures.passed(batchThrough: 19)
        #expect(failures.pageSize(after: 0, usual: 4000) == 1)
        failures.passed(batchThrough: 20)
        #expect(failures.pageSize(after: 0, usual: 4000) == 4000)
        let action6 = failures.failed(batchThrough: nil, mayStall: true, random: 1)
        #expect(action6 == .retry(attempt: 1, after: .seconds(1)))
    }
}
