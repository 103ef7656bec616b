import Foundation
import HistoryMessaging
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

/// What takes several processes: crashes, memory, what is held.
@Suite("Consumer's processes", .serialized, .timeLimit(.minutes(5)))
struct ConsumerProcessTests {
    private static let agent = ChildProcess.built("TestAgent")

    /// Kills a consumer at a step again and again, each time a bit later in its work, until it comes to its end.
    private func crash(_ fixture: ConsumerFixture, at step: AgentStep, kills wanted: Int, url: String?) async throws {
        let index = fixture.temporary.directory.file("index.db")
        let head = try await fixture.insert(60)
        var kills = 0
        var isDone = false
        while !isDone {
            let last = kills < wanted ? "\(kills % 2 + 1)" : "1000000"
            let child = try ChildProcess(
                Self.agent,
                ["consumer", "crash", fixture.temporary.path, index, step.rawValue, last, "\(head.sequence)"]
                    + (url.map { [$0] } ?? []))
            let (lines, ending) = await child.output()
            switch ending {
            case .signalled(SIGKILL): kills += 1
            case .exited(0):
                if kills >= wanted {
                    isDone = true
                    #expect(lines == ["done \(head)"])
                } else {
                    // It came through: there has to be more to do.
                    try #require(await fixture.insert(1) > head)
                    return try await crash(fixture, at: step, kills: wanted - kills, url: url)
                }
            default: throw Unexpected(ending: ending)
            }
        }
        let context = try await FileContext(index)
        let contents = try await context.contents()
        let sequences = Array(1...head.sequence)
        #expect(contents.effects.keys.sorted() == sequences)
        #expect(contents.effects.values.allSatisfy { $0 == 1 })
        #expect(contents.token == head.description)
        await context.close()
    }

    struct Unexpected: Error { let ending: ChildProcess.Ending }

    @Test(
        "P13: killed 20 times at a step: tokens merged are tokens committed, each with its effect once",
        arguments: [
            AgentStep.consumerBeforeMerge, .consumerAfterMerge, .consumerAfterToken, .consumerAfterBrokerAck,
        ])
    func crashes(step: AgentStep) async throws {
        let fixture = try await ConsumerFixture()
        try await crash(fixture, at: step, kills: 20, url: nil)
    }

    @Test(
        "P13: killed 20 times at a step with a broker that delivers and is acknowledged to: the same",
        arguments: [
            AgentStep.consumerBeforeMerge, .consumerAfterMerge, .consumerAfterToken, .consumerAfterBrokerAck,
            .consumerAfterAcknowledgement,
        ])
    func crashesWithBroker(step: AgentStep) async throws {
        let fixture = try await BrokerFixture()
        let names = fixture.names
        try await fixture.connected { connection in
            try await connection.declare(names.cleaning)
            // Before anything is published: each transaction has its message there.
            try await connection.declare(names.consuming(as: "c"))
        }
        let publisher = HistoryPublisher(fixture.store, broker: fixture.broker)
        try await withServices(publisher) {
            try await crash(fixture.fixture, at: step, kills: 20, url: fixture.host.url)
        }
    }

    @Test("P7: a transaction of 1,000,000 rows is merged, and handed to a hook, under 64 MB more than before")
    func memory() async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE item(id INTEGER PRIMARY KEY, v INTEGER, t TEXT)")
        try await temporary.write(
            """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000)
            INSERT INTO item(v, t) SELECT i, 'text of ' || i FROM n
            """)
        let child = try ChildProcess(Self.agent, ["consumer", "memory", temporary.path])
        let (lines, ending) = await child.output()
        #expect(ending == .exited(0))
        try #require(lines.count == 3)
        #expect(lines[1] == "group 1000000 1000000")
        let numbers = [lines[0], lines[2]].compactMap { Int($0.split(separator: " ")[1]) }
        print("memory of merging 1,000,000 rows: \(numbers[1] - numbers[0]) KiB more than before")
        #expect(numbers[1] - numbers[0] < 64 * 1024)
    }

    @Test(
        "P32: a publisher, a relay and a cleaner: after ten runs threads and descriptors are as after the first, no agent is left"
    )
    func resourcesOfOthers() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for service in ["publisher", "relay", "cleaner"] {
                group.addTask {
                    let fixture = try await BrokerFixture()
                    let child = try ChildProcess(
                        Self.agent, ["resources", service, fixture.fixture.temporary.path, fixture.host.url, "10"])
                    let (lines, ending) = await child.output()
                    #expect(ending == .exited(0), "\(service)")
                    try #require(lines.count == 2, "\(service)")
                    #expect(lines[1] == lines[0], "\(service)")
                }
            }
            try await group.waitForAll()
        }
    }

    @Test("P32: after runs and stops, threads and descriptors equal the start")
    func resources() async throws {
        let fixture = try await ConsumerFixture()
        try await fixture.insert(2)
        let child = try ChildProcess(Self.agent, ["consumer", "resources", fixture.temporary.path, "5"])
        let (lines, ending) = await child.output()
        #expect(ending == .exited(0))
        try #require(lines.count == 2)
        #expect(lines[1].split(separator: " ").dropFirst() == lines[0].split(separator: " ").dropFirst())
    }
}
