extension PrivateBroker {
    /// Starts a cluster: its nodes see each other's queues, and one that loses sight of the majority pauses itself.
    ///
    /// The nodes end together, with the last of the objects.
    ///
    /// - Throws: ``PrivateBrokerError`` where one does not start, or does not see the others.
    public static func cluster(of count: Int, _ options: Options = Options()) async throws -> [PrivateBroker] {
        try await gate.passing {
            try await retryingPortClashes {
                let site = try await BrokerSite.start()
                let nodes = try (1...count).map { try PrivateBroker(options, in: site, number: $0) }
                var settings = [("cluster_formation.peer_discovery_backend", "classic_config")]
                for (index, node) in nodes.enumerated() {
                    settings.append(("cluster_formation.classic_config.nodes.\(index + 1)", node.nodeName))
                }
                settings.append(("cluster_partition_handling", "pause_minority"))
                for node in nodes { try node.configure(settings: settings) }
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for node in nodes { group.addTask { try await node.start() } }
                    try await group.waitForAll()
                }
                for node in nodes {
                    let running = try await node.runningNodes()
                    guard running == nodes.map(\.nodeName).sorted() else {
                        throw PrivateBrokerError(
                            "\(node.nodeName) sees \(running)\n\(LogTail.of(node.log))")
                    }
                }
                return nodes
            }
        }
    }

    /// The names of the cluster's nodes that run, as this one sees it, sorted.
    public func runningNodes() async throws -> [String] {
        let names = try await evaluate("[atom_to_binary(N) || N <- lists:sort(rabbit_nodes:all_running())]")
        return names.split(separator: "\"").filter { $0.contains("@") }.map(String.init)
    }
}
