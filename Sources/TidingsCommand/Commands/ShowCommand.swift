import PersistentHistory

enum ShowCommand: Subcommand {
    static let name = "show"
    static let summary = "Show one transaction"
    static let operands = "DB N"
    static let operandCount = 2...2
    static let options: [Option] = [.flag("--json", "as one JSON object")]

    static func run(_ arguments: Arguments) async throws {
        guard let sequence = Int64(arguments.operands[1]), sequence > 0 else {
            throw UsageError("N expects a sequence, a whole number from 1 on, not \(arguments.operands[1])")
        }
        let store = try await Stores.openForReading(arguments.operands[0])
        let printer: any TransactionPrinter = arguments.has("--json") ? JSONPrinter() : TextPrinter()
        try await printer.print(try await Stores.transaction(sequence, in: store))
        await store.close()
    }
}
