import PersistentHistory

enum ShowCommand: Subcommand {
    static let name = "show"
    static let summary = "Show one transaction"
    static let operands: [Operand] = [.database, .one("N", "the transaction's sequence")]
    static let options: [Option] = [.flag("--json", "as one JSON object")] + ServiceOptions.storeOptions

    static func run(_ arguments: Arguments) async throws {
        let sequence = try Arguments.integer(arguments.furtherOperands[0], of: "N", minimum: 1)
        try await Stores.reading(ServiceOptions.readingPath(arguments)) { store in
            var printer = Printers.printer(json: arguments.has("--json"))
            try await printer.print(try await Stores.transaction(sequence, in: store))
        }
    }
}
