import Glibc
import HistoryMessaging
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

@Suite("The cleaner's death", .serialized, .timeLimit(.minutes(3)))
struct CleanerCrashTests {
    private static let rounds = 22
    /// Three chunks of the agent's.
    private static let each = 15

    @Test(
        "killed 22 times at each step: history is a whole behind its mark, none needed goes, no acknowledgement is lost",
        arguments: [
            AgentStep.cleanerBeforeChunk, .cleanerBetweenChunks, .cleanerBeforeMark, .cleanerAfterMark,
            .cleanerAfterAcknowledgement,
        ])
    func killed(step: AgentStep) async throws {
        let fixture = try await CleanerFixture(transactions: Self.rounds * Self.each + 1)
        let names = ["a", "b"]
        for name in names { try await fixture.register(name, user: fixture.host.user) }
        let start = ContinuousClock.now
        try await fixture.peer { peer in
            for round in 1...Self.rounds {
                let sequence = round * Self.each
                for name in names { try await peer.acknowledge(fixture.tokens[sequence - 1], as: name) }
                // Acknowledgements may come as one batch; chunks are three at least.
                let occurrence = step == .cleanerAfterAcknowledgement ? 1 : 1 + round % 2
                let ending = try await Self.agent(fixture, step.rawValue, occurrence, last: .max)
                try #require(ending == .signalled(SIGKILL), "round \(round)")
                try await Self.check(fixture, sent: Int64(sequence))
            }
        }
        print("\(Self.rounds) kills at \(step.rawValue): \((ContinuousClock.now - start) / Self.rounds) each")
        // One that lives does the rest: nothing that was sent was lost.
        let last = Int64(Self.rounds * Self.each)
        #expect(try await fixture.acknowledged().values.allSatisfy { $0 <= last })
        try await fixture.peer { peer in
            for name in names { try await peer.acknowledge(fixture.tokens[Int(last)], as: name) }
        }
        #expect(try await Self.agent(fixture, "none", 1, last: last + 1) == .exited(0))
        #expect(try await fixture.acknowledged() == ["a": last + 1, "b": last + 1])
        #expect(try await fixture.temporary.sequences() == [last + 1])
        // What was given back to the broker may come after what was sent later: it says nothing new, and goes too.
        try await fixture.peer { peer in
            let queue = fixture.names.acknowledgementQueue
            try await fixture.cleaning { _ in
                try await fixture.events.wait { try await peer.connection.inspect(queue: queue).messages == 0 }
            }
            #expect(try await peer.connection.inspect(queue: queue).messages == 0)
        }
        #expect(try await fixture.acknowledged() == ["a": last + 1, "b": last + 1])
        let integrity = try await fixture.store.read { try $0.first("PRAGMA integrity_check", as: String.self) }
        #expect(integrity == "ok")
        // What was audited is what is gone.
        let audited = try await fixture.store.read {
            try $0.first("SELECT sum(count) FROM history_audit WHERE kind = 'purge'", as: Int64.self)
        }
        #expect(audited == last)
    }

    @Test("one in another process holds the store: the second says who it is, and takes over when that one is killed")
    func takeover() async throws {
        let fixture = try await CleanerFixture()
        let first = try ChildProcess(
            ChildProcess.built("TestAgent"),
            ["cleaner", fixture.temporary.path, fixture.host.url, "none", "1", "\(Int64.max)"])
        // It serves once it answers.
        try await fixture.peer { peer in
            let reply = try await peer.request("status")
            #expect(reply.isOK)
        }
        try await fixture.cleaning { second in
            try await fixture.events.wait { await second.status().waitingFor != nil }
            let holder = try #require(await second.status().waitingFor)
            #expect(holder == "\(HistoryOrigin().host) \(first.processID)")
            first.send(SIGKILL)
            #expect(await first.wait() == .signalled(SIGKILL))
            try await fixture.register("a", user: fixture.host.user)
            try await fixture.peer { peer in
                try await peer.acknowledge(fixture.tokens[9], as: "a")
                try await fixture.events.wait { try await fixture.acknowledged() == ["a": 10] }
            }
            #expect(await second.status().waitingFor == nil)
        }
    }

    private static func agent(
        _ fixture: CleanerFixture, _ step: String, _ occurrence: Int, last: Int64
    ) async throws -> ChildProcess.Ending {
        let child = try ChildProcess(
            ChildProcess.built("TestAgent"),
            ["cleaner", fixture.temporary.path, fixture.host.url, step, "\(occurrence)", "\(last)"])
        return await child.wait()
    }

    /// After a kill: a whole prefix is gone, its mark is its last transaction, and nobody needed any of it.
    private static func check(_ fixture: CleanerFixture, sent: Int64) async throws {
        let (mark, isWhole) = try await fixture.temporary.purged()
        #expect(isWhole)
        #expect(mark.sequence < sent)
        if mark.sequence > 0 { #expect(mark == fixture.tokens[Int(mark.sequence) - 1]) }
        for consumer in try await fixture.store.consumers() {
            guard let acknowledged = consumer.acknowledged else {
                #expect(mark.sequence == 0)
                continue
            }
            #expect(acknowledged.sequence <= sent && acknowledged.sequence > mark.sequence)
            #expect(acknowledged == fixture.tokens[Int(acknowledged.sequence) - 1])
        }
    }
}
