import HistoryMessaging
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsTestKit

/// Publishers and relays killed at each step of their work, in processes of their own: afterwards the messages are
/// exactly those of what was committed, some of them twice; a consumer has merged each once in effect, and history goes up
/// to what was acknowledged.
@Suite("Crashes while publishing", .serialized, .timeLimit(.minutes(10)))
struct PublishingCrashTests {
    private static let kills = 20

    @Test(
        "A publisher killed at a step",
        arguments: [
            AgentStep.publisherBeforeFlush, .publisherAfterFlush, .publisherAfterPublish, .publisherAfterConfirm,
            .publisherAfterConfirmedThrough,
        ])
    func publisher(step: AgentStep) async throws {
        let fixture = try await PublishingFixture()
        try await surviving(fixture) {
            let begin = ContinuousClock.now
            for round in 0..<Self.kills {
                // What is confirmed is recorded twice in such a short life: at once, and at the end.
                let number = 1 + round % (step == .publisherAfterConfirmedThrough ? 2 : 3)
                let child = try ChildProcess(
                    ChildProcess.built("TestAgent"),
                    ["publisher", "publish", fixture.path, fixture.host.url, step.rawValue, "\(number)", "24"])
                #expect(await child.wait() == .signalled(9))
            }
            print("\(Self.kills) kills at \(step): \((ContinuousClock.now - begin) / Self.kills) each")
        }
    }

    @Test(
        "A relay killed at a step",
        arguments: [
            AgentStep.relayBeforeFlush, .relayAfterFlush, .relayAfterPublish, .relayAfterConfirm,
            .relayAfterPublishedThrough,
        ])
    func relay(step: AgentStep) async throws {
        let fixture = try await PublishingFixture()
        try await surviving(fixture) {
            let begin = ContinuousClock.now
            for _ in 0..<Self.kills {
                try await fixture.insert(12)
                let child = try ChildProcess(
                    ChildProcess.built("TestAgent"),
                    ["publisher", "relay", fixture.path, fixture.host.url, step.rawValue, "1"])
                #expect(await child.wait() == .signalled(9))
            }
            print("\(Self.kills) kills at \(step): \((ContinuousClock.now - begin) / Self.kills) each")
        }
    }

    /// A relay publishes what is left; a consumer that was there all the time has merged everything once, and history goes
    /// up to what was acknowledged.
    private func finish(_ fixture: PublishingFixture, _ effects: FileContext, _ consumer: HistoryConsumer) async throws
    {
        let head = try await fixture.store.currentToken()
        let committed = try await fixture.committedTokens()
        var options = HistoryRelay.Options()
        options.grace = .milliseconds(200)
        options.pollInterval = .milliseconds(20)
        let relay = HistoryRelay(fixture.store, broker: fixture.broker, options: options)
        let begin = ContinuousClock.now
        try await withServices(relay) {
            try await until { try await fixture.publishedSequence() == head.sequence }
        }
        try await consumer.waitUntilCaughtUp(to: head)
        try await until { try await Self.acknowledged(fixture)["effects"] == head.sequence }
        let published = try await fixture.publishedTokens()
        print("\(committed.count) committed, \(published.count) messages; the rest took \(ContinuousClock.now - begin)")
        #expect(Set(published) == Set(committed))
        let merged = try await effects.contents().effects
        #expect(merged == Dictionary(uniqueKeysWithValues: committed.map { ($0.sequence, 1) }))
        await effects.close()
    }

    /// History goes up to the token that everybody has acknowledged, and no further.
    private func clean(_ fixture: PublishingFixture, _ cleaner: HistoryCleaner) async throws {
        let tokens = try await fixture.committedTokens()
        // Somebody who is behind.
        try await fixture.store.register(consumer: "behind", author: "behind", token: tokens[0])
        await #expect(throws: MessagingError.self) { try await cleaner.clean() }
        let middle = tokens[tokens.count / 2]
        try await fixture.store.acknowledge(middle, consumer: "behind")
        #expect(try await cleaner.clean().count == Int(middle.sequence) - 1)
        let last = try #require(tokens.last)
        #expect(try await fixture.temporary.sequences() == Array(middle.sequence...last.sequence))
        try await fixture.store.acknowledge(last, consumer: "behind")
        try await cleaner.clean()
        #expect(try await fixture.temporary.sequences() == [last.sequence])
    }

    private static func acknowledged(_ fixture: PublishingFixture) async throws -> [String: Int64] {
        var sequences: [String: Int64] = [:]
        for consumer in try await fixture.store.consumers() {
            sequences[consumer.name] = consumer.acknowledged?.sequence
        }
        return sequences
    }

    /// Kills while a consumer with a durable context and a cleaner run.
    private func surviving(_ fixture: PublishingFixture, _ kill: @escaping @Sendable () async throws -> Void)
        async throws
    {
        let effects = try await FileContext(fixture.temporary.directory.file("effects.db"))
        let cleaner = HistoryCleaner(fixture.store, broker: fixture.broker)
        let consumer = HistoryConsumer(fixture.store, name: "effects", contexts: [effects], broker: fixture.broker)
        try await withServices(cleaner, consumer) {
            try await kill()
            try await finish(fixture, effects, consumer)
            try await clean(fixture, cleaner)
        }
    }
}
