import HistoryMessaging
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsTestKit

/// Publishers and relays killed at each step of their work, in processes of their own: afterwards the messages are
/// exactly those of what was committed, some of them twice.
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
        try await relayTheRest(fixture)
    }

    @Test(
        "A relay killed at a step",
        arguments: [
            AgentStep.relayBeforeFlush, .relayAfterFlush, .relayAfterPublish, .relayAfterConfirm,
            .relayAfterPublishedThrough,
        ])
    func relay(step: AgentStep) async throws {
        let fixture = try await PublishingFixture()
        let begin = ContinuousClock.now
        for _ in 0..<Self.kills {
            try await fixture.insert(12)
            let child = try ChildProcess(
                ChildProcess.built("TestAgent"),
                ["publisher", "relay", fixture.path, fixture.host.url, step.rawValue, "1"])
            #expect(await child.wait() == .signalled(9))
        }
        print("\(Self.kills) kills at \(step): \((ContinuousClock.now - begin) / Self.kills) each")
        try await relayTheRest(fixture)
    }

    private func relayTheRest(_ fixture: PublishingFixture) async throws {
        var options = HistoryRelay.Options()
        options.grace = .milliseconds(200)
        options.pollInterval = .milliseconds(20)
        let relay = HistoryRelay(fixture.store, broker: fixture.broker, options: options)
        let head = try await fixture.store.currentToken().sequence
        let begin = ContinuousClock.now
        try await withServices(relay) { try await until { try await fixture.publishedSequence() == head } }
        let published = try await fixture.publishedTokens()
        let committed = try await fixture.committedTokens()
        print("\(committed.count) committed, \(published.count) messages; the rest took \(ContinuousClock.now - begin)")
        #expect(Set(published) == Set(committed))
    }
}
