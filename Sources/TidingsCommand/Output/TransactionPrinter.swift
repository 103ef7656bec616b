import PersistentHistory

/// Prints transactions one by one, in memory that does not grow with their size.
protocol TransactionPrinter: Sendable {
    mutating func print(_ transaction: HistoryTransaction) async throws
}

enum Printers {
    /// The printer for people or for programs. A request's filters hold for what is told about tables too.
    static func printer(json: Bool, _ request: HistoryRequest = HistoryRequest()) -> any TransactionPrinter {
        json ? JSONPrinter() : TextPrinter(request)
    }
}

/// One JSON object a line: token, author, context, origin, time, entities, changes.
struct JSONPrinter: TransactionPrinter {
    private var writer = TransactionLineWriter()

    mutating func print(_ transaction: HistoryTransaction) async throws {
        try await writer.write(transaction) { bytes in
            Output.write(bytes)
            return !Output.isClosed
        }
    }
}

/// For people: a line that says who and when, then a line for each change.
struct TextPrinter: TransactionPrinter {
    /// The entities whose own changes are told; nil for all, none where the request wants certain changes of objects.
    private let entities: Set<String>?

    init(_ request: HistoryRequest) {
        let wantsObjects = request.operations != nil || request.objects != nil || request.changedColumns != nil
        entities = wantsObjects ? [] : request.entities
    }

    mutating func print(_ transaction: HistoryTransaction) async throws {
        Output.line(ReadableText.header(transaction))
        if entities?.isEmpty != true {
            for change in try await transaction.schemaChanges() where isWanted(change.entity) {
                Output.line("  " + ReadableText.line(change))
            }
        }
        for try await change in transaction.changes {
            Output.line("  " + ReadableText.line(change.decoded()))
            if Output.isClosed { return }
        }
    }

    private func isWanted(_ entity: String) -> Bool {
        entities?.contains { TableInspector.isSameName($0, entity) } ?? true
    }
}
