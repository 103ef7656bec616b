import Glibc
import HistoryMessaging
import PersistentHistory
import TidingsAMQP
import TidingsServices

/// Something that a subcommand does until it has ended, or SIGTERM or SIGINT asks for its end: as services are ended, so
/// that the program exits with 0 within its bound.
final class StoppableWork: HistoryService {
    private struct State {
        var isStopping = false
        var onStop: (@Sendable () -> Void)?
    }

    let serviceName: String
    private let body: @Sendable (StoppableWork) async throws -> Void
    private let state = Locked(State())

    private init(_ name: String, _ body: @escaping @Sendable (StoppableWork) async throws -> Void) {
        serviceName = name
        self.body = body
    }

    /// Does it. The body is told by ``isStopping`` or ``whenStopping(_:)``, and ends soon after. Where it has not past the
    /// bound, or there is a second signal, the program ends with 0 where it stands: to be used for what loses nothing then.
    static func run(
        _ name: String, within bound: Duration, logger: any HistoryLogger = SilentLogger(),
        _ body: @escaping @Sendable (StoppableWork) async throws -> Void
    ) async throws {
        try await ServiceGroup([StoppableWork(name, body)], logger: logger).run(within: bound)
    }

    /// Whether a signal has asked for the end.
    var isStopping: Bool { state.withLock { $0.isStopping } }

    /// Does something once a signal asks for the end; at once where it has already.
    func whenStopping(_ action: @escaping @Sendable () -> Void) {
        let isLate = state.withLock { state in
            state.onStop = action
            return state.isStopping
        }
        if isLate { action() }
    }

    func run() async throws {
        try await withTaskCancellationHandler {
            try await body(self)
        } onCancel: {
            // It may hang in a call that nothing ends: a pipe that nobody reads, a lock that is not given back.
            _exit(0)
        }
    }

    /// Asks for the end; whoever waits for it sees it by the return of ``run()``.
    func stop() async {
        let action = state.withLock { state in
            defer { state.isStopping = true }
            return state.isStopping ? nil : state.onStop
        }
        action?()
    }
}
