import HistoryMessaging
import Testing
import TidingsServices

@Suite("A service that says it was cancelled, and was not", .timeLimit(.minutes(3)))
struct StrayCancellationTests {
    /// Ends with a cancellation of something of its own.
    private struct Stray: HistoryService {
        let serviceName = "stray"
        func run() async throws { throw CancellationError() }
        func stop() async {}
    }

    @Test("has failed: the body is cancelled, and the log tells it")
    func stray() async throws {
        let logger = RecordingLogger()
        await #expect(throws: CancellationError.self) {
            try await withRunning(Stray(), logger: logger) { try await untilCancelled() }
        }
        #expect(logger.all == ["info stray: started", "error stray: failed error=CancellationError()"])
    }
}
