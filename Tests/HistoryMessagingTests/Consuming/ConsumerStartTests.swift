import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

@testable import HistoryMessaging

@Suite("Where a consumer starts", .timeLimit(.minutes(2)))
struct ConsumerStartTests {
    private func start(
        _ fixture: ConsumerFixture, _ contexts: [any MergeContext], at start: HistoryConsumer.Start?,
        through token: HistoryToken
    ) async throws {
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: contexts, options: fixture.options { $0.start = start })
        try await withServices(consumer) { try await consumer.waitUntilCaughtUp(to: token) }
        #expect(consumer.status().token == token)
        #expect(consumer.status().isProtected)
        #expect(consumer.status().counts.resyncs == 0)
    }

    @Test("Contexts that can be loaded are loaded by default; the others go on from there too")
    func snapshot() async throws {
        let fixture = try await ConsumerFixture()
        let head = try await fixture.insert(3)
        let (mirror, recording) = (MirrorContext(), RecordingContext())
        try await start(fixture, [mirror, recording], at: nil, through: head)
        #expect(mirror.wholeLoads == 1)
        #expect(mirror.sequences == [])
        #expect(recording.sequences == [])
        #expect(try await mirror.rows(of: "article") == MirrorContext.rows(of: "article", in: fixture.store))
        // The next run loads it again, and the others go on.
        let next = try await fixture.insert(2)
        try await start(fixture, [mirror, recording], at: nil, through: next)
        #expect(mirror.wholeLoads == 2)
        #expect(mirror.sequences == [])
        #expect(recording.sequences == [5, 6])
    }

    @Test("Without such a context everything that is there is merged")
    func beginning() async throws {
        let fixture = try await ConsumerFixture()
        let head = try await fixture.insert(3)
        let recording = RecordingContext()
        try await start(fixture, [recording], at: nil, through: head)
        #expect(recording.sequences == [1, 2, 3, 4])
    }

    @Test("From now on, or after a token")
    func others() async throws {
        let fixture = try await ConsumerFixture()
        let second = try await fixture.insert()
        let head = try await fixture.insert(2)
        let now = RecordingContext()
        try await start(fixture, [now], at: .now, through: head)
        #expect(now.sequences == [])
        let other = try await ConsumerFixture()
        let after = try await other.insert()
        let end = try await other.insert(2)
        let recording = RecordingContext()
        try await start(other, [recording], at: .after(after), through: end)
        #expect(recording.sequences == [3, 4])
        #expect(second.sequence == 2)
    }

    @Test("A purged beginning is the oldest transaction that is there")
    func purgedBeginning() async throws {
        let fixture = try await ConsumerFixture()
        let middle = try await fixture.insert(3)
        try await fixture.store.deleteHistory(before: .token(middle))
        let head = try await fixture.insert()
        let recording = RecordingContext()
        try await start(fixture, [recording], at: .beginning, through: head)
        #expect(recording.sequences == [4, 5])
    }

    @Test("P31: a durable context that was restored to an older state is merged into from its own token on")
    func olderReplica() async throws {
        let fixture = try await ConsumerFixture()
        let recording = RecordingContext()
        let durable = try await FileContext(fixture.temporary.directory.file("index.db"))
        let first = try await fixture.insert(2)
        try await start(fixture, [durable, recording], at: nil, through: first)
        let copy = try await durable.contents()
        let second = try await fixture.insert(2)
        try await start(fixture, [durable, recording], at: nil, through: second)
        try await durable.restore(copy)
        let third = try await fixture.insert()
        try await start(fixture, [durable, recording], at: nil, through: third)
        #expect(try await durable.contents().effects == [1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1])
        #expect(try await durable.durableToken() == third)
        #expect(recording.sequences == [1, 2, 3, 4, 5, 6])
    }

    @Test("A durable context gets an empty batch that moves its position")
    func emptyBatch() async throws {
        let fixture = try await ConsumerFixture()
        let durable = try await FileContext(fixture.temporary.directory.file("index.db"))
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [durable], options: fixture.options { $0.authors = [] })
        let head = try await fixture.insert(2)
        try await withServices(consumer) { try await consumer.waitUntilCaughtUp(to: head) }
        #expect(try await durable.durableToken() == head)
        #expect(try await durable.contents().effects == [:])
    }

    @Test("A finished batch moves a durable context's token too")
    func finished() async throws {
        let fixture = try await ConsumerFixture()
        let durable = try await FileContext(fixture.temporary.directory.file("index.db"))
        let consumer = HistoryConsumer(fixture.store, name: "c", contexts: [durable], options: fixture.options())
        await consumer.addMergeHook { _ in .finish }
        let head = try await fixture.insert(2)
        try await withServices(consumer) { try await consumer.waitUntilCaughtUp(to: head) }
        #expect(try await durable.durableToken() == head)
        #expect(try await durable.contents().effects == [:])
    }

    @Test("Rewinding: hooks get everything again, durable contexts do not, those that can be loaded are loaded")
    func rewind() async throws {
        let fixture = try await ConsumerFixture()
        let (mirror, recording) = (MirrorContext(), RecordingContext())
        let durable = try await FileContext(fixture.temporary.directory.file("index.db"))
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [mirror, recording, durable],
            options: fixture.options { $0.start = .beginning })
        let head = try await fixture.insert(2)
        try await withServices(consumer) {
            try await consumer.waitUntilCaughtUp(to: head)
            #expect(recording.sequences == [1, 2, 3])
            try await consumer.rewind(to: .beginning)
            try await until { recording.sequences.count >= 6 }
            #expect(recording.sequences == [1, 2, 3, 1, 2, 3])
            #expect(mirror.wholeLoads == 1)
            try await consumer.rewind(to: .snapshot)
            #expect(mirror.wholeLoads == 2)
            try await consumer.rewind(to: .now)
        }
        #expect(try await durable.contents().effects == [1: 1, 2: 1, 3: 1])
        // While nothing runs: at the next run.
        try await consumer.rewind(to: .after(head))
        let next = try await fixture.insert()
        try await withServices(consumer) { try await consumer.waitUntilCaughtUp(to: next) }
        #expect(recording.sequences == [1, 2, 3, 1, 2, 3, 4])
        let records = try await fixture.store.read { db in
            try db.first("SELECT count(*) FROM history_audit WHERE kind = 'rewind'", as: Int.self)
        }
        #expect(records == 4)
    }

    @Test("Places are decided by rules alone", arguments: PlacementCase.all)
    func places(_ example: PlacementCase) {
        let plan = PlacementPlan(shared: example.shared, members: example.members, start: example.start)
        #expect(plan.shared == example.expectedShared)
        #expect(plan.members == example.expected)
    }

    struct PlacementCase: Sendable {
        let shared: PlacementPlan.Standing
        let members: [PlacementPlan.Member]
        var start: HistoryConsumer.Start?
        let expectedShared: PlacementPlan.Place
        let expected: [PlacementPlan.Place]

        static func view(_ standing: PlacementPlan.Standing) -> PlacementPlan.Member {
            PlacementPlan.Member(isDurable: false, canLoad: true, standing: standing)
        }
        static func replica(_ standing: PlacementPlan.Standing) -> PlacementPlan.Member {
            PlacementPlan.Member(isDurable: true, canLoad: true, standing: standing)
        }
        static func log(_ standing: PlacementPlan.Standing) -> PlacementPlan.Member {
            PlacementPlan.Member(isDurable: true, canLoad: false, standing: standing)
        }
        static let closure = PlacementPlan.Member(isDurable: false, canLoad: false, standing: .missing)

        static let all: [PlacementCase] = [
            PlacementCase(shared: .missing, members: [], expectedShared: .oldest, expected: []),
            PlacementCase(
                shared: .missing, members: [view(.missing), closure], expectedShared: .snapshot,
                expected: [.snapshot, .shared]),
            PlacementCase(
                shared: .missing, members: [replica(.good), log(.missing)], expectedShared: .snapshot,
                expected: [.stay, .shared]),
            PlacementCase(
                shared: .missing, members: [replica(.missing), view(.missing), log(.missing)], start: .beginning,
                expectedShared: .oldest, expected: [.oldest, .snapshot, .oldest]),
            PlacementCase(
                shared: .good, members: [replica(.missing), view(.missing), log(.lost), log(.missing)], start: .now,
                expectedShared: .stay, expected: [.snapshot, .snapshot, .oldest, .head]),
            PlacementCase(
                shared: .lost, members: [replica(.lost), view(.good)], expectedShared: .snapshot,
                expected: [.snapshot, .stay]),
            PlacementCase(
                shared: .lost, members: [replica(.lost), closure], expectedShared: .oldest,
                expected: [.snapshot, .shared]),
            PlacementCase(shared: .lost, members: [], start: .now, expectedShared: .oldest, expected: []),
        ]
    }
}
