import HistoryMessaging

/// Services for the time of a closure.
enum Services {
    /// Runs services as long as a closure runs, then stops them in reverse order. Throws what any of them throws.
    static func run<Result: Sendable>(
        _ services: [any HistoryService], _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        try await withThrowingTaskGroup(of: Result?.self) { group in
            defer { group.cancelAll() }
            for service in services {
                group.addTask {
                    try await service.run()
                    return nil
                }
            }
            group.addTask { try await body() }
            // Either the closure's result, or a service that has ended too early.
            guard let result = try await group.next() ?? nil else {
                throw BenchmarkError("a service ended by itself")
            }
            for service in services.reversed() { await service.stop() }
            try await group.waitForAll()
            return result
        }
    }
}
