import Foundation
import PersistentHistory

enum InitCommand: Subcommand {
    static let name = "init"
    static let summary = "Make a database a store: add the history's tables"
    static let operands = "DB"
    static let operandCount = 1...1
    static let options: [Option] = [
        .flag("--create", "create the file where it is missing"),
        .value("--group", "G", "let the members of a Unix group share the store: directory 2770, files 0660"),
    ]
    static let details =
        "Its own tables stay as they are; nothing is tracked yet. Harmless where the database is a store already."

    static func run(_ arguments: Arguments) async throws {
        let path = arguments.operands[0]
        guard arguments.has("--create") || FileManager.default.fileExists(atPath: path) else {
            throw CommandError("there is no file \(path): check the path, or create it with --create")
        }
        let isStore = await Stores.isStore(path)
        let store = try await HistoryStore.open(path, author: Stores.operatorName, create: true)
        if let group = arguments.string("--group") { try store.share(withGroup: group) }
        Output.line("\(path) is \(isStore ? "already " : "")store \(store.storeID.uuidString.lowercased())")
        await store.close()
    }
}
