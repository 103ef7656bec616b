import Glibc
import LocalContexts
import PersistentHistory

/// Where a consumer's changes go.
struct ConsumeTarget: Sendable {
    private enum Place {
        case output
        case lines(String)
        case command(String)
        case database(String)
    }

    private let place: Place
    private let entities: Set<String>?

    init(_ arguments: Arguments) throws(UsageError) {
        let output = arguments.string("--output")
        if output != nil, !arguments.has("--json") { throw UsageError("--output goes with --json") }
        switch (arguments.has("--json"), arguments.string("--exec"), arguments.string("--into")) {
        case (true, nil, nil): place = output.map { .lines($0) } ?? .output
        case (false, let command?, nil): place = .command(command)
        case (false, nil, let path?): place = .database(path)
        default: throw UsageError("say where changes go by one of --json, --exec CMD and --into FILE")
        }
        entities = arguments.strings("--entity").map { Set($0) }
    }

    /// True where changes go to standard output, and nobody reads that any more.
    var isClosed: Bool {
        guard case .output = place else { return false }
        var descriptor = pollfd(fd: STDOUT_FILENO, events: 0, revents: 0)
        return poll(&descriptor, 1, 0) == 1 && descriptor.revents & Int16(POLLERR) != 0
    }

    func context() throws -> any MergeContext {
        switch place {
        case .output: restricted(try JSONLinesContext(descriptor: STDOUT_FILENO))
        case .lines(let path): restricted(try JSONLinesContext(path))
        case .command(let command): restricted(CommandContext(command))
        case .database(let path): try ProjectionContext(path, entities: entities)
        }
    }

    private func restricted(_ context: any MergeContext) -> any MergeContext {
        guard let entities else { return context }
        return AdaptedContext(context) { try await context.merge($0.restricted(to: entities)) }
    }
}
