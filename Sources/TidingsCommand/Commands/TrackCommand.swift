import PersistentHistory

enum TrackCommand: Subcommand {
    static let name = "track"
    static let summary = "Start recording the changes of tables"
    static let operands = "DB TABLE… | DB --all"
    static let operandCount = 1...1000
    static let options: [Option] = [.flag("--all", "every table that exists now")]
    static let details =
        "Prints the sequence of the transaction that records the beginning, or - where nothing was new."

    static func run(_ arguments: Arguments) async throws {
        let tables = try Tables.parse(arguments)
        let store = try await HistoryStore.open(arguments.operands[0], author: Stores.operatorName)
        let token = try await store.track(tables)
        Output.line(token.map { String($0.sequence) } ?? "-")
        await store.close()
    }
}

enum UntrackCommand: Subcommand {
    static let name = "untrack"
    static let summary = "Stop recording the changes of tables"
    static let operands = "DB TABLE… | DB --all"
    static let operandCount = 1...1000
    static let options: [Option] = [.flag("--all", "every table that is tracked")]
    static let details = "Their history stays readable. Prints the sequence of the transaction that records the end."

    static func run(_ arguments: Arguments) async throws {
        let tables = try Tables.parse(arguments)
        let store = try await HistoryStore.open(arguments.operands[0], author: Stores.operatorName)
        let token = try await store.untrack(tables)
        Output.line(token.map { String($0.sequence) } ?? "-")
        await store.close()
    }
}

private enum Tables {
    static func parse(_ arguments: Arguments) throws(UsageError) -> HistoryStore.Tables {
        let names = Array(arguments.operands.dropFirst())
        guard names.isEmpty == arguments.has("--all") else {
            throw UsageError(
                names.isEmpty ? "name the tables, or say --all" : "--all and names of tables exclude each other")
        }
        return names.isEmpty ? .all : .named(names)
    }
}
