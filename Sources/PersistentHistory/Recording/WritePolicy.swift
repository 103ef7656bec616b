internal import TidingsSQLite

/// What statements of users may not do on a connection that records history.
enum WritePolicy {
    /// Pragmas whose change would defeat the recording, or the file for others.
    private static let refusedPragmas: Set<String> = [
        "journal_mode", "locking_mode", "writable_schema", "schema_version", "encoding", "query_only", "busy_timeout",
        "count_changes",
    ]

    static func decide(_ action: AuthorizedAction) -> AuthorizationDecision {
        switch action.kind {
        case .transaction:
            return .deny(
                reason:
                    "\(action.first ?? "a transaction statement") is not allowed in a tracked write: the transaction is "
                    + "Tidings' own; to take part of it back use SAVEPOINT and ROLLBACK TO")
        case .attach:
            return attach(action.first)
        case .pragma:
            guard let name = action.first?.lowercased(), action.second != nil, refusedPragmas.contains(name) else {
                return .allow
            }
            return .deny(reason: "PRAGMA \(name) cannot be changed on a connection that records history: leave it out")
        case .insert, .update, .delete, .schemaChange, .temporarySchemaChange:
            return ownTables(action)
        case .detach, .other:
            return .allow
        }
    }

    /// The history's own tables are written by Tidings alone.
    private static func ownTables(_ action: AuthorizedAction) -> AuthorizationDecision {
        // TEMP objects too: an unqualified name means the TEMP one first.
        let isMain = ["main", "temp"].contains(action.database?.lowercased())
        let names = [action.first, action.second].compactMap { $0?.lowercased() }
        guard isMain, let name = names.first(where: { $0.hasPrefix("history_") }) else { return .allow }
        return .deny(
            reason:
                "\(name) belongs to Tidings, which reserves the prefix history_: read it, but leave the writing to it")
    }

    /// A second store attached here would be written without history.
    private static func attach(_ file: String?) -> AuthorizationDecision {
        guard let file else {
            return .deny(reason: "ATTACH needs the file's name as a literal here, so that it can be checked")
        }
        guard !file.hasPrefix("file:") else {
            return .deny(reason: "ATTACH takes a path here and no URI, so that the file can be checked")
        }
        guard !file.isEmpty, file != ":memory:", Database.exists(file) else { return .allow }
        do {
            guard try isStore(file) else { return .allow }
        } catch let error as SQLiteError where error.code == .notADatabase {
            // SQLite refuses it in its own words.
            return .allow
        } catch {
            return .deny(reason: "\(file) cannot be checked for being a Tidings store, and so is not attached")
        }
        return .deny(
            reason: "\(file) is a Tidings store: attached here its changes would not be recorded; open it by itself")
    }

    private static func isStore(_ file: String) throws -> Bool {
        do {
            return try HistorySchema.exists(Database(path: file, options: OpenOptions(access: .readOnly)))
        } catch let error as SQLiteError where error.code == .unavailable {
            // Its log is missing, as the sqlite3 shell leaves it. ATTACH would make a new one, and so may this.
            let options = OpenOptions(access: .readWrite, usesWriteAheadLog: false)
            return try HistorySchema.exists(Database(path: file, options: options))
        }
    }
}
