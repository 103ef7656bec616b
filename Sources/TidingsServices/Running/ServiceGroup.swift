public import HistoryMessaging
public import PersistentHistory

/// Services that run together: all of them begin, and they end in reverse order, so that whoever is used outlives whoever
/// uses it.
///
/// ```swift
/// let group = ServiceGroup([publisher, consumer], logger: logger)
/// try await group.run(untilSignals: [.term, .int], within: configuration.shutdownTimeout)
/// ```
///
/// A service that fails ends the others, gracefully. One whose `run()` returns has been stopped by somebody: the others go
/// on.
public struct ServiceGroup: Sendable {
    /// The services in the order in which they begin.
    public let services: [any HistoryService]
    /// Where beginnings, ends and failures are told.
    public let logger: any HistoryLogger

    /// Makes a group. Nothing runs yet.
    public init(_ services: [any HistoryService], logger: any HistoryLogger = SilentLogger()) {
        self.services = services
        self.logger = logger
    }

    /// Runs the services for as long as a closure runs, which begins at once.
    ///
    /// - Returns: what the closure returns, once all services have ended.
    /// - Throws: the first failure of a service, which cancels the closure; or what the closure throws. The services are
    ///   stopped gracefully before. Without a bound: cancel the task for an end that finishes nothing.
    public func run<Value: Sendable>(
        _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        try await run(body, whenAllHaveEnded: {})
    }

    /// Runs the services for as long as a closure runs, and tells when none of them runs any more.
    func run<Value: Sendable>(
        _ body: @escaping @Sendable () async throws -> Value,
        whenAllHaveEnded allHaveEnded: @escaping @Sendable () -> Void
    ) async throws -> Value {
        let runs = services.map { ServiceRun($0, logger: logger) }
        let (failures, failed) = AsyncStream.makeStream(of: ServiceFailure.self)
        let outcome = await withTaskGroup(of: Void.self) { tasks in
            for run in runs {
                tasks.addTask {
                    if let failure = await run.run() { failed.yield(failure) }
                    if runs.allSatisfy(\.hasEnded) { allHaveEnded() }
                }
            }
            if runs.isEmpty { allHaveEnded() }
            let outcome = await Self.outcome(of: body, until: failures)
            for run in runs.reversed() { await run.stop() }
            await tasks.waitForAll()
            return outcome
        }
        switch outcome {
        case .failure(let failure as ServiceFailure): throw failure.error
        case .failure(let error): throw error
        case .success(let value):
            // One that failed while it was stopped has failed nonetheless.
            if let late = runs.firstFailure { throw late.error }
            return value
        }
    }

    /// What comes first: the end of the body, or a failure, which cancels the body and waits for it.
    private static func outcome<Value: Sendable>(
        of body: @escaping @Sendable () async throws -> Value, until failures: AsyncStream<ServiceFailure>
    ) async -> Result<Value, any Error> {
        await withTaskGroup(of: Result<Value, any Error>?.self) { tasks in
            tasks.addTask {
                do { return .success(try await body()) } catch { return .failure(error) }
            }
            tasks.addTask {
                for await failure in failures { return .failure(failure) }
                return nil
            }
            var first: Result<Value, any Error>?
            // The watcher is nil where this task itself is cancelled: then the body is too, and its end counts.
            while first == nil, let next = await tasks.next() { first = next }
            tasks.cancelAll()
            await tasks.waitForAll()
            return first ?? .failure(CancellationError())
        }
    }
}

/// Runs services for as long as a closure runs, and stops them in reverse order: ``ServiceGroup/run(_:)``.
///
/// ```swift
/// try await withRunning(publisher, consumer) {
///     let token = try await store.write { db in try db.execute("…") }.token
///     try await consumer.waitUntilCaughtUp(to: token)
/// }
/// ```
public func withRunning<Value: Sendable>(
    _ services: any HistoryService..., logger: any HistoryLogger = SilentLogger(),
    _ body: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    try await ServiceGroup(services, logger: logger).run(body)
}
