internal import PersistentHistory
internal import TidingsAMQP

/// Tries a service's work again while the store does not let it be done: locked by somebody else, full, away for a time.
struct StoreRetry: Sendable {
    let life: ServiceLife
    let log: ServiceLog

    private static let backoff = Backoff(first: .milliseconds(50), longest: .seconds(5))

    /// Runs a part of the work until it succeeds, with growing delays. nil where the service is told to stop before that.
    ///
    /// - Parameter survives: asked about each error that does not pass by itself; false throws it. `closed` and fatal
    ///   errors are thrown in any case.
    func run<Value>(
        survives: (HistoryError) -> Bool = { _ in false }, _ body: () async throws -> Value
    ) async throws -> Value? {
        var attempt = 0
        while true {
            do {
                return try await body()
            } catch let error as HistoryError where error.code != .closed && !error.isFatal {
                guard error.passes || survives(error) else { throw error }
                attempt += 1
                let level: HistoryLogLevel = error.passes ? (attempt == 1 ? .warning : .debug) : .error
                log.write(level, "the store cannot be used now, tries again", error)
                if !life.isStopping {
                    try await life.pause(for: Self.backoff.delay(attempt: attempt, random: .random(in: 0..<1)))
                }
                if life.isStopping { return nil }
            }
        }
    }
}

extension HistoryError {
    /// True where it may pass without any repair: what is there now, or was there a moment ago, can be locked, full or
    /// being replaced.
    var passes: Bool { isRetriable || code == .cannotOpen }
}
