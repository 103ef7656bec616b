import PersistentHistory

enum PurgeCommand: Subcommand {
    static let name = "purge"
    static let summary = "Delete the oldest part of the history"
    static let operands = "DB"
    static let operandCount = 1...1
    static let options: [Option] = [
        .value("--before", "N", "the first sequence that stays", isRequired: true),
        .flag("--dry-run", "only count what would be deleted"),
    ]
    static let details = "Prints the number of transactions deleted. Data tables are never touched."

    static func run(_ arguments: Arguments) async throws {
        let sequence = try arguments.integer("--before", minimum: 1) ?? 1
        let path = arguments.operands[0]
        let isDry = arguments.has("--dry-run")
        let store =
            isDry
            ? try await Stores.openForReading(path) : try await HistoryStore.open(path, author: Stores.operatorName)
        let count =
            isDry
            ? try await store.countHistory(before: .sequence(sequence))
            : try await store.deleteHistory(before: .sequence(sequence))
        Output.line(String(count))
        await store.close()
    }
}
