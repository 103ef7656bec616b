internal import HistoryMessaging
internal import PersistentHistory
internal import TidingsAMQP

/// A service has failed.
struct ServiceFailure: Error {
    let service: String
    let error: any Error
}

/// One service within a group, from its beginning to its end.
final class ServiceRun: Sendable {
    private enum Phase {
        case waiting
        case running
        case ended
    }

    private struct State {
        var phase = Phase.waiting
        var isStopping = false
        var failure: ServiceFailure?
    }

    private let service: any HistoryService
    private let logger: any HistoryLogger
    private let state = Locked(State())

    init(_ service: any HistoryService, logger: any HistoryLogger) {
        self.service = service
        self.logger = logger
    }

    /// What it ended with; nil where that was no failure.
    var failure: ServiceFailure? { state.withLock { $0.failure } }

    /// Whether it has ended, or will never begin.
    var hasEnded: Bool { state.withLock { $0.phase == .ended } }

    /// Runs the service to its end; returns its failure, if it has one.
    func run() async -> ServiceFailure? {
        let name = service.serviceName
        let begins = state.withLock { state in
            state.phase = state.isStopping ? .ended : .running
            return !state.isStopping
        }
        guard begins else { return nil }
        logger.log(.info) { HistoryLogEntry(name, "started") }
        do {
            try await service.run()
            end(nil)
            logger.log(.info) { HistoryLogEntry(name, "ended") }
            return nil
        } catch  where Task.isCancelled {
            end(nil)
            // How it says that it was cancelled is its own affair.
            logger.log(.info) { HistoryLogEntry(name, "cancelled", [("error", "\(error)")]) }
            return nil
        } catch {
            let failure = ServiceFailure(service: name, error: error)
            end(failure)
            logger.log(.error) { HistoryLogEntry(name, "failed", [("error", "\(error)")]) }
            return failure
        }
    }

    /// Stops the service; returns when it has ended, or when it will never begin.
    func stop() async {
        state.withLock { $0.isStopping = true }
        // A stop that arrives before the beginning of `run()` finds nothing to stop, and the run is still to come: it is
        // asked for again where the end does not follow. That takes a moment only: the run is scheduled already.
        while isRunning {
            await service.stop()
            for _ in 0..<10 where isRunning {
                await Task.yield()
                if isRunning { try? await Task.sleep(for: .milliseconds(1)) }
            }
        }
    }

    private var isRunning: Bool { state.withLock { $0.phase == .running } }

    private func end(_ failure: ServiceFailure?) {
        state.withLock { state in
            state.phase = .ended
            state.failure = failure
        }
    }
}

extension [ServiceRun] {
    /// The failure of the first service that has one.
    var firstFailure: ServiceFailure? { lazy.compactMap(\.failure).first }
}
