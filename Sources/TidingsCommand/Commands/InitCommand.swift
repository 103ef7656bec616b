import FoundationEssentials
import PersistentHistory
import TidingsSQLite
import TidingsServices

enum InitCommand: Subcommand {
    static let name = "init"
    static let summary = "Make a database a store: add the history's tables"
    static let options: [Option] =
        [
            .flag("--create", "create the file where it is missing"),
            .value(
                "--group", "G", "let a Unix group, by name or number, share the store: directory 2770, files 0660"),
        ] + ServiceOptions.storeOptions
    static let details = """
        The database's own tables stay as they are; nothing is tracked yet. Harmless where it is a store \
        already. With --group give the store a directory of its own: the group may then do everything in it, and \
        nobody else anything.
        """

    static func run(_ arguments: Arguments) async throws {
        let settings = try ServiceOptions(arguments)
        let path = try settings.path()
        // Also before the file is created: an unknown group must leave nothing behind.
        let group = try arguments.string("--group").map { try HistoryStore.Group(named: $0) }
        guard arguments.has("--create") || Database.exists(path) else {
            throw CommandError("there is no file \(path): check the path, or create it with --create")
        }
        let (store, isNew) = try await open(path, settings.configuration.storeOptions)
        try await Stores.lending(store) { store in
            if let group { try store.share(with: group) }
            Output.line("\(path) is \(isNew ? "now" : "already") the store \(store.storeID.uuidString.lowercased())")
        }
    }

    /// Opens the store, and makes it one where it is none yet.
    private static func open(
        _ path: String, _ options: HistoryStore.Options
    ) async throws -> (HistoryStore, isNew: Bool) {
        do {
            guard Database.exists(path) else { throw HistoryError(.notAStore, "there is no file yet") }
            return (try await HistoryStore.openAsOperator(path, options: options), false)
        } catch let error as HistoryError where error.code == .notAStore {
            return (try await HistoryStore.openAsOperator(path, create: true, options: options), true)
        }
    }
}
