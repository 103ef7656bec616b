import PersistentHistory

enum PurgeCommand: Subcommand {
    static let name = "purge"
    static let summary = "Delete the oldest part of the history"
    static let options: [Option] =
        [
            .value("--before", "N", "the first sequence that stays", isRequired: true),
            .flag("--dry-run", "only count what would be deleted"),
        ] + ServiceOptions.storeOptions
    static let details = """
        Prints the number of transactions deleted. The tables themselves are never touched. N is at most one more \
        than the newest sequence, which deletes the whole history.
        """

    static func run(_ arguments: Arguments) async throws {
        let sequence = try arguments.integer("--before", minimum: 1) ?? 1
        let limit = HistoryStore.PurgeLimit.sequence(sequence)
        let count =
            if arguments.has("--dry-run") {
                try await Stores.reading(ServiceOptions.readingPath(arguments)) { store in
                    try await check(sequence, in: store)
                    return try await store.countHistory(before: limit)
                }
            } else {
                try await ServiceOptions(arguments).writing { store in
                    try await check(sequence, in: store)
                    return try await store.deleteHistory(before: limit)
                }
            }
        Output.line(String(count))
    }

    /// A number far past the newest transaction is a slip, and would delete everything.
    private static func check(_ sequence: Int64, in store: HistoryStore) async throws {
        let head = try await store.currentToken().sequence
        guard sequence > head + 1 else { return }
        throw CommandError(
            "--before \(sequence) is past the end: the newest transaction of \(store.path) is \(head), and --before "
                + "\(head + 1) deletes them all")
    }
}
