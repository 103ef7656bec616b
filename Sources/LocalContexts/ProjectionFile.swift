internal import PersistentHistory
internal import TidingsSQLite

/// The file of a projection: what makes a SQLite file one, and the token in it.
enum ProjectionFile {
    /// The name that a table has while it is being copied.
    static let formerTable = "projection_former"

    private static let tables = """
        CREATE TABLE projection_token(
            id INTEGER PRIMARY KEY CHECK (id = 1),
            format INTEGER NOT NULL,
            token TEXT,
            entities TEXT
        );
        CREATE TABLE projection_entity(
            entity TEXT PRIMARY KEY COLLATE NOCASE,
            loaded INTEGER NOT NULL
        ) WITHOUT ROWID;
        INSERT INTO projection_token(id, format) VALUES (1, 1);
        """
    private static let format: Int64 = 1

    /// True for the names of the projection's own tables and of what SQLite keeps for itself.
    static func isReserved(_ name: String) -> Bool {
        let name = name.lowercased()
        return ["projection_token", "projection_entity", formerTable].contains(name) || name.hasPrefix("sqlite_")
    }

    /// Opens a projection for writing; makes one where there is no file, or an empty database.
    ///
    /// Tables that are not wanted any more are dropped. A store, and a database with tables of another program, are refused
    /// and stay as they are.
    static func open(_ path: String, busyTimeout: Duration, scope: ProjectionScope) throws -> Database {
        guard !path.isEmpty, path != ":memory:" else {
            throw HistoryError(.cannotOpen, "a projection needs a file: give it a path")
        }
        do {
            let isNew = !Database.exists(path)
            let database = try Database(
                path: path,
                options: OpenOptions(
                    // Merged means durable: each commit is on the disk before the consumer acknowledges it.
                    access: .create, busyTimeout: busyTimeout, synchronous: .full, usesWriteAheadLog: isNew,
                    enforcesForeignKeys: false))
            try database.transaction {
                if try !isProjection(database) { try make(database) }
                try narrow(to: scope, database)
            }
            if !isNew { try database.enterWriteAheadLog() }
            return database
        } catch let error as SQLiteError {
            throw HistoryError(error, while: "opening the projection", path: path)
        }
    }

    /// Opens a projection for reading.
    static func openReadOnly(_ path: String) throws -> Database {
        do {
            let database = try Database(path: path, options: OpenOptions(access: .readOnly))
            guard try isProjection(database) else {
                throw HistoryError(.cannotOpen, "\(path) is a database but not a projection: check the path")
            }
            return database
        } catch let error as SQLiteError {
            throw HistoryError(error, while: "opening the projection", path: path)
        }
    }

    /// True for a projection, false for a database without anything in it. Everything else is refused.
    private static func isProjection(_ database: Database) throws -> Bool {
        let names = try database.query("SELECT lower(name) FROM sqlite_schema") { row in
            try row.get(0, as: String.self)
        }
        if names.contains("history_store") {
            throw HistoryError(
                .cannotOpen,
                "\(database.path) is a Tidings store, not a projection: give the projection a file of its own")
        }
        guard !names.isEmpty else { return false }
        guard names.contains("projection_token"), names.contains("projection_entity") else {
            throw HistoryError(
                .cannotOpen,
                "\(database.path) is a database of another program: give the projection a file of its own")
        }
        let found = try database.first("SELECT format FROM projection_token WHERE id = 1", as: Int64.self)
        guard found == format else {
            throw HistoryError(
                .unsupportedFormat,
                "\(database.path) is a projection of format \(found ?? 0), this version reads \(format): "
                    + "delete the file, it is built anew from the store")
        }
        return true
    }

    private static func make(_ database: Database) throws { try database.execute(tables) }

    /// Leaves what is kept where more than that was kept before; where there was less, the file must be loaded anew.
    private static func narrow(to wanted: ProjectionScope, _ database: Database) throws {
        let columns = "SELECT count(*) FROM pragma_table_info('projection_token') WHERE name = 'entities'"
        if try database.first(columns, as: Int.self) == 0 {
            try database.execute("ALTER TABLE projection_token ADD COLUMN entities TEXT")
        }
        let found = try scope(database)
        guard found != wanted else { return }
        if try token(database) == nil { return try store(wanted, database) }
        guard let found, found.covers(wanted) else { return }
        var tables = try ProjectionTables(database)
        try tables.dropAll { !wanted.contains($0) }
        try store(wanted, database)
    }

    /// Which entities the rows are of; nil where the file does not tell.
    static func scope(_ database: Database) throws -> ProjectionScope? {
        let text = try database.first("SELECT entities FROM projection_token WHERE id = 1", as: String?.self) ?? nil
        return text.flatMap { ProjectionScope(text: $0) }
    }

    /// Stores which entities the rows are of. Must run inside the transaction that makes it so.
    static func store(_ scope: ProjectionScope, _ database: Database) throws {
        try database.execute("UPDATE projection_token SET entities = ? WHERE id = 1", try scope.text())
    }

    /// The token up to which the projection's rows stand; nil where nothing was loaded or merged.
    static func token(_ database: Database) throws -> HistoryToken? {
        let text = try database.first("SELECT token FROM projection_token WHERE id = 1", as: String?.self) ?? nil
        guard let text else { return nil }
        guard let token = HistoryToken(text) else {
            throw HistoryError(
                .damagedHistory,
                "\(database.path): the token of the projection cannot be read: delete the file, it is built anew")
        }
        return token
    }

    /// Stores the token. Must run inside the transaction that brings the rows there.
    static func store(_ token: HistoryToken, _ database: Database) throws {
        try database.execute("UPDATE projection_token SET token = ? WHERE id = 1", token.description)
    }
}
