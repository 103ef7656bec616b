import Glibc
import LocalContexts
import PersistentHistory

/// A process of its own that merges a store's history into a durable context, and may end at any instant.
///
/// `TestContext STORE projection|lines FILE MICROSECONDS`: after so many microseconds the system kills it, as power or
/// the kernel might; 0 lets it reach the end.
@main
enum TestContext {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 5, let delay = UInt32(arguments[4]) else { exit(2) }
        let context: any MergeContext =
            arguments[2] == "projection" ? try ProjectionContext(arguments[3]) : try JSONLinesContext(arguments[3])
        let store = try await HistoryStore.openReadOnly(arguments[1])
        // Nobody handles the signal: like SIGKILL it leaves the process no time for anything.
        if delay > 0 { ualarm(delay, 0) }
        var request = HistoryRequest(after: try await context.durableToken())
        request.pageSize = 3
        while true {
            let fetch = try await store.fetch(request)
            try await context.merge(HistoryBatch(fetch.transactions, through: fetch.token))
            if fetch.isAtEnd { return }
            request.start = .token(fetch.token)
        }
    }
}
