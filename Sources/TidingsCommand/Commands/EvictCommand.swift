import HistoryMessaging
import PersistentHistory

enum EvictCommand: Subcommand {
    static let name = "evict"
    static let summary = "Let history wait for a consumer no more"
    static let operands: [Operand] = [.database, .one("CONSUMER", "the consumer's name, as `tidings status` shows it")]
    static let options = ServiceOptions.storeOptions
    static let details = """
        For a consumer that is gone for good, or whose name was a slip: cleaning no longer waits for it. Where it comes back it \
        registers anew, and resyncs if history that it had not merged is gone by then.
        """

    static func run(_ arguments: Arguments) async throws {
        let name = arguments.furtherOperands[0]
        try await ServiceOptions(arguments).writing { store in
            guard try await store.evict(consumer: name) else {
                let names = try await store.consumers().map(\.name)
                let known = names.isEmpty ? "none is registered" : "there are \(names.joined(separator: ", "))"
                throw CommandError("\(store.path) has no consumer \(name): \(known)")
            }
        }
    }
}
