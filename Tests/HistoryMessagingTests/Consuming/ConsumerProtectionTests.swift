import Foundation
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsTestKit

@testable import HistoryMessaging

/// What the store knows of a consumer: that it is there, and how far it has come.
@Suite("What the store knows of a consumer", .timeLimit(.minutes(3)))
struct ConsumerProtectionTests {
    private func record(_ store: HistoryStore) async throws -> ConsumerRecord? {
        try await store.consumers().first { $0.name == "c" }
    }

    /// Waits until the record is as it should be.
    private func recorded(
        in store: HistoryStore, at location: SourceLocation = #_sourceLocation,
        _ condition: @Sendable (ConsumerRecord) -> Bool
    ) async throws {
        try await until(sourceLocation: location) {
            try await record(store).map(condition) ?? false
        }
    }

    // MARK: Its user

    @Test("A consumer that first ran without a broker is registered anew with its user, and is acknowledged then")
    func brokerLater() async throws {
        let fixture = try await BrokerFixture()
        let first = try await fixture.fixture.insert()
        let without = HistoryConsumer(
            fixture.store, name: "c", contexts: [RecordingContext()], options: fixture.fixture.options())
        try await withServices(without) { try await without.waitUntilCaughtUp(to: first) }
        #expect(try await record(fixture.store)?.user == nil)
        let cleaner = HistoryCleaner(fixture.store, broker: fixture.broker)
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [RecordingContext()], broker: fixture.broker,
            options: fixture.options())
        try await withServices(cleaner, consumer) {
            let token = try await fixture.fixture.insert()
            try await consumer.waitUntilCaughtUp(to: token)
            try await recorded(in: fixture.store) { $0.acknowledged == token }
        }
        #expect(try await record(fixture.store)?.user == fixture.host.user)
        #expect(consumer.status().isProtected)
    }

    // MARK: A stop

    @Test("A stop right after catching up has acknowledged, every time")
    func stopWithoutBroker() async throws {
        let fixture = try await ConsumerFixture()
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [RecordingContext()], options: fixture.options())
        for _ in 0..<50 {
            let token = try await fixture.insert()
            try await withServices(consumer) { try await consumer.waitUntilCaughtUp(to: token) }
            #expect(try await record(fixture.store)?.acknowledged == token)
        }
    }

    @Test("A stop right after catching up has sent the acknowledgement to the broker, every time")
    func stopWithBroker() async throws {
        let fixture = try await BrokerFixture()
        let cleaner = HistoryCleaner(fixture.store, broker: fixture.broker)
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [RecordingContext()], broker: fixture.broker,
            options: fixture.options { $0.registrationWait = .seconds(20) })
        try await withServices(cleaner) {
            for _ in 0..<15 {
                let token = try await fixture.fixture.insert()
                try await withServices(consumer) { try await consumer.waitUntilCaughtUp(to: token) }
                try await recorded(in: fixture.store) { $0.acknowledged == token }
            }
        }
    }

    @Test(
        "An acknowledgement that is to be repeated while it is being sent is sent once more", arguments: [false, true])
    func repeated(isFailing: Bool) async throws {
        let fixture = try await ConsumerFixture()
        let tokens = [try await fixture.insert(), try await fixture.insert()]
        let directory = fixture.temporary.directory.file("tokens")
        let (file, _) = try await TokenFile.open(directory: directory, consumer: "c")
        let acknowledger = HistoryAcknowledger(
            fixture.store, name: "c", author: "a", link: nil, options: fixture.options(), board: ConsumerBoard(),
            file: file, isDamaged: false)
        let sent = Locked<[HistoryToken]>([])
        let expected = Array(repeating: tokens[0], count: isFailing ? 3 : 2) + [tokens[1]]
        await acknowledger.acknowledge(tokens[0])
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                await acknowledger.run(sending: { token in
                    let count = sent.withLock { sent in
                        sent.append(token)
                        return sent.count
                    }
                    // The registration's reply comes before the broker's confirm.
                    if count == 1 { await acknowledger.repeatAcknowledgement() }
                    if count == 2, isFailing { throw ConsumerFixture.Missing() }
                    if count == expected.count - 1 { await acknowledger.acknowledge(tokens[1]) }
                    return true
                })
            }
            try await until { sent.withLock { $0.count } >= expected.count }
            group.cancelAll()
        }
        #expect(sent.withLock { $0 } == expected)
        await file.close()
    }

    // MARK: A way back

    private func hold(_ record: ConsumerRecord) -> Int64 { record.acknowledged?.sequence ?? record.floor }

    @Test("A consumer that is rewound is protected from there on")
    func rewound() async throws {
        let fixture = try await ConsumerFixture()
        let context = RecordingContext()
        let consumer = HistoryConsumer(fixture.store, name: "c", contexts: [context], options: fixture.options())
        let first = try await fixture.insert(2)
        let head = try await fixture.insert(2)
        try await withServices(consumer) {
            try await consumer.waitUntilCaughtUp(to: head)
            try await recorded(in: fixture.store) { hold($0) == head.sequence }
            // It can go no further than there.
            context.fail(at: [first.sequence + 1])
            try await consumer.rewind(to: .after(first))
            #expect(try await record(fixture.store).map(hold) == first.sequence)
            context.fail(at: [])
            try await recorded(in: fixture.store) { hold($0) == head.sequence }
        }
    }

    @Test("A consumer that is rewound asks the cleaner to protect it from there on")
    func rewoundWithBroker() async throws {
        let fixture = try await BrokerFixture()
        let context = RecordingContext()
        let cleaner = HistoryCleaner(fixture.store, broker: fixture.broker)
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [context], broker: fixture.broker,
            options: fixture.options { $0.registrationWait = .seconds(20) })
        let first = try await fixture.fixture.insert(2)
        let head = try await fixture.fixture.insert(2)
        try await withServices(cleaner, consumer) {
            try await consumer.waitUntilCaughtUp(to: head)
            try await recorded(in: fixture.store) { hold($0) == head.sequence }
            context.fail(at: [first.sequence + 1])
            try await consumer.rewind(to: .after(first))
            try await recorded(in: fixture.store) { hold($0) == first.sequence }
            try await until { consumer.status().isProtected }
            context.fail(at: [])
            consumer.retry()
            try await recorded(in: fixture.store) { hold($0) == head.sequence }
        }
    }

    @Test(
        "A consumer that is rewound is protected from there on also where an earlier acknowledgement is counted later")
    func overtaken() async throws {
        let fixture = try await BrokerFixture()
        let context = RecordingContext()
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [context], broker: fixture.broker,
            options: fixture.options { $0.registrationWait = .seconds(20) })
        let second = try await fixture.fixture.insert()
        let cleaner = HistoryCleaner(fixture.store, broker: fixture.broker)
        try await withServices(consumer) {
            try await withServices(cleaner) {
                try await recorded(in: fixture.store) { $0.acknowledged == second }
                try await until { consumer.status().isProtected }
            }
            // Nobody counts now what is acknowledged.
            let third = try await fixture.fixture.insert()
            let head = try await fixture.fixture.insert(7)
            try await consumer.waitUntilCaughtUp(to: head)
            try await until { consumer.status().acknowledged == head }
            context.fail(at: [4])
            try await consumer.rewind(to: .after(third))
            try await until { consumer.status().acknowledged == third }
            #expect(try await record(fixture.store)?.acknowledged == second)
            try await withServices(cleaner) {
                try await recorded(in: fixture.store) { hold($0) == third.sequence }
                try await until { consumer.status().isProtected }
                #expect(try await cleaner.clean().count == 2)
            }
            context.fail(at: [])
            consumer.retry()
            try await until { consumer.status().acknowledged == head }
        }
        #expect(context.sequences == Array(1...10) + Array(4...10))
        #expect(consumer.status().counts.resyncs == 0)
    }

    @Test(
        "Without a broker too, an acknowledgement that is counted late lets go of nothing that a rewind needs",
        arguments: [false, true])
    func overtakenWithoutBroker(isNextRun: Bool) async throws {
        let fixture = try await ConsumerFixture()
        let context = RecordingContext()
        func consumer() -> HistoryConsumer {
            HistoryConsumer(fixture.store, name: "c", contexts: [context], options: fixture.options())
        }
        let third = try await fixture.insert(2)
        let head = try await fixture.insert(7)
        /// The acknowledgement is counted: written by this test, as late as can be.
        @Sendable func acknowledgeLate(_ consumer: HistoryConsumer) async throws {
            try await until { consumer.status().token == third }
            try await recorded(in: fixture.store) { hold($0) == third.sequence }
            try await fixture.store.acknowledge(head, consumer: "c")
            try await recorded(in: fixture.store) { hold($0) == third.sequence }
        }
        let first = consumer()
        try await withServices(first) {
            try await first.waitUntilCaughtUp(to: head)
            context.fail(at: [4])
            try await first.rewind(to: .after(third))
            if !isNextRun { try await acknowledgeLate(first) }
        }
        guard isNextRun else { return }
        let next = consumer()
        try await withServices(next) { try await acknowledgeLate(next) }
    }

    @Test("P31: a replica that was restored to an older state is protected from its own token on")
    func olderReplica() async throws {
        let fixture = try await ConsumerFixture()
        let durable = try await FileContext(fixture.temporary.directory.file("index.db"))
        let failing = RecordingContext()
        func consumer() -> HistoryConsumer {
            HistoryConsumer(fixture.store, name: "c", contexts: [failing, durable], options: fixture.options())
        }
        let first = try await fixture.insert(2)
        let before = consumer()
        try await withServices(before) { try await before.waitUntilCaughtUp(to: first) }
        let copy = try await durable.contents()
        let second = try await fixture.insert(2)
        let between = consumer()
        try await withServices(between) { try await between.waitUntilCaughtUp(to: second) }
        try await durable.restore(copy)
        durable.fail(true)
        let after = consumer()
        try await withServices(after) {
            try await recorded(in: fixture.store) { hold($0) == first.sequence }
            durable.fail(false)
            try await after.waitUntilCaughtUp(to: second)
        }
        #expect(try await record(fixture.store).map(hold) == second.sequence)
    }

    @Test("A consumer whose token file was deleted, and that starts at the beginning, is protected from there on")
    func deletedToken() async throws {
        let fixture = try await ConsumerFixture()
        let context = RecordingContext()
        let options = fixture.options { $0.start = .beginning }
        let head = try await fixture.insert(3)
        let before = HistoryConsumer(fixture.store, name: "c", contexts: [context], options: options)
        try await withServices(before) { try await before.waitUntilCaughtUp(to: head) }
        try FileManager.default.removeItem(atPath: "\(fixture.temporary.path)-tokens/c.token")
        context.fail(at: [1])
        let after = HistoryConsumer(fixture.store, name: "c", contexts: [context], options: options)
        try await withServices(after) { try await recorded(in: fixture.store) { hold($0) == 0 } }
        #expect(after.status().isProtected)
    }
}
