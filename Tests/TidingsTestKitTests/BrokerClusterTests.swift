import Foundation
import Testing
import TidingsTestKit

extension PrivateBrokerTests {
    @Suite("A cluster", .serialized, .timeLimit(.minutes(5)))
    struct BrokerClusterTests {
        @Test("three nodes run, share virtual hosts and queues, elect another leader, and take a killed node back")
        func three() async throws {
            let nodes = try await PrivateBroker.cluster(of: 3)
            let names = nodes.map(\.nodeName).sorted()
            #expect(nodes.count == 3)
            #expect(Set(nodes.map(\.port)).count == 3)
            for node in nodes { #expect(try await node.runningNodes() == names) }

            let virtualHost = try await nodes[0].makeVirtualHost()
            #expect(virtualHost.url(on: nodes[2]).contains("127.0.0.1:\(nodes[2].port)/"))
            #expect(try await Permissions.of(virtualHost.user, on: nodes[2]).count == 1)
            try await Queues.declare("orders", kind: "quorum", in: virtualHost)
            for node in nodes { #expect(try await node.queueLength("orders", virtualHost: virtualHost.name) == 0) }

            let leader = try await nodes[0].leader(ofQueue: "orders", virtualHost: virtualHost.name)
            let killed = try #require(nodes.first { $0.nodeName == leader })
            let others = nodes.filter { $0.nodeName != leader }
            await killed.kill()
            var next = leader
            while next == leader {
                try await Task.sleep(for: .milliseconds(20))
                next = (try? await others[0].leader(ofQueue: "orders", virtualHost: virtualHost.name)) ?? leader
            }
            #expect(others.map(\.nodeName).contains(next))

            try await killed.start()
            #expect(try await killed.runningNodes() == names)
            await nodes[0].shutDown()
            for node in nodes { #expect(!FileManager.default.fileExists(atPath: node.directory)) }
        }
    }
}
