import PersistentHistory

enum PurgeCommand: Subcommand {
    static let name = "purge"
    static let summary = "Delete the oldest part of the history"
    static let options: [Option] = [
        .value("--before", "N", "the first sequence that stays", isRequired: true),
        .flag("--dry-run", "only count what would be deleted"),
    ]
    static let details = "Prints the number of transactions deleted. The tables themselves are never touched."

    static func run(_ arguments: Arguments) async throws {
        let limit = HistoryStore.PurgeLimit.sequence(try arguments.integer("--before", minimum: 1) ?? 1)
        let path = arguments.operands[0]
        let count =
            if arguments.has("--dry-run") {
                try await Stores.reading(path) { try await $0.countHistory(before: limit) }
            } else {
                try await Stores.writing(path) { try await $0.deleteHistory(before: limit) }
            }
        Output.line(String(count))
    }
}
