import PersistentHistory

enum TrackCommand: Subcommand {
    static let name = "track"
    static let summary = "Start recording the changes of tables"
    static let operands: [Operand] = [
        .leadingDatabase, .any("TABLE", "tables to track: all of them, or none where one cannot be"),
    ]
    static let options: [Option] =
        [.flag("--all", "every table that exists now, or none where one cannot be")] + ServiceOptions.storeOptions
    static let details = """
        Prints the sequence of the transaction that records the beginning, or - where nothing was new. `tidings info` \
        lists the tables that cannot be tracked, and why: to track the others, list those by name.
        """

    static func run(_ arguments: Arguments) async throws {
        let tables = try Tables.parse(arguments)
        let token = try await ServiceOptions(arguments).writing { store in
            do {
                return try await store.track(tables)
            } catch let error as HistoryError where error.code == .untrackable && tables == .all {
                throw CommandError(
                    "\(error.message); nothing was changed: to track the others, list them by name")
            }
        }
        Output.line(token.map { String($0.sequence) } ?? "-")
    }
}

enum UntrackCommand: Subcommand {
    static let name = "untrack"
    static let summary = "Stop recording the changes of tables"
    static let operands: [Operand] = [.leadingDatabase, .any("TABLE", "tables that are tracked")]
    static let options: [Option] = [.flag("--all", "every table that is tracked")] + ServiceOptions.storeOptions
    static let details = """
        Their history stays readable. Prints the sequence of the transaction that records the end, or - where there \
        is nothing that --all could end. A table listed by name that is not tracked is an error, and then none is ended.
        """

    static func run(_ arguments: Arguments) async throws {
        let tables = try Tables.parse(arguments)
        let token = try await ServiceOptions(arguments).writing { try await $0.untrack(tables) }
        Output.line(token.map { String($0.sequence) } ?? "-")
    }
}

private enum Tables {
    static func parse(_ arguments: Arguments) throws(UsageError) -> HistoryStore.Tables {
        let names = arguments.furtherOperands
        guard names.isEmpty == arguments.has("--all") else {
            throw UsageError(
                names.isEmpty ? "name the tables, or say --all" : "--all and names of tables exclude each other")
        }
        return names.isEmpty ? .all : .named(names)
    }
}
