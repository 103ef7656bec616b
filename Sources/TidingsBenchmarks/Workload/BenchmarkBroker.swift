import Glibc
import TidingsTestKit

/// The broker that measurements go through.
enum BenchmarkBroker {
    /// Lends the broker that the options name, or a private one, started for the run.
    static func with<Result: Sendable>(
        _ options: BenchmarkOptions, _ body: (BrokerEndpoint) async throws -> Result
    ) async throws -> Result {
        if let url = options.broker.url { return try await body(BrokerEndpoint(url)) }
        // The broker's files go where the directory for temporary files is, like all others of a measurement.
        setenv("TMPDIR", options.directory, 1)
        let broker = try await PrivateBroker.start()
        do {
            let result = try await body(BrokerEndpoint(broker.makeVirtualHost().url))
            await broker.shutDown()
            return result
        } catch {
            await broker.shutDown()
            throw error
        }
    }
}
