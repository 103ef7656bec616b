internal import TidingsAMQP

extension AMQPConnection {
    /// Serves the connection until it is closed, at once where that has happened before: a service that is stopped as it
    /// starts may close what has not begun yet.
    func serve() async throws {
        do {
            try await run()
        } catch let error as AMQPError where error.code == .alreadyRunning {
            guard case .closed(nil) = state else { throw error }
        }
    }
}
