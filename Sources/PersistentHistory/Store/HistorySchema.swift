internal import FoundationEssentials
internal import TidingsSQLite

/// The tables that Tidings adds to a database. Their prefix is `history_`; the format's version is in `history_store`.
enum HistorySchema {
    /// The version that this code reads and writes.
    static let format: Int64 = 1

    /// True for the names of Tidings' own tables and of what SQLite keeps for itself.
    static func isReserved(_ table: String) -> Bool {
        let name = table.lowercased()
        return name.hasPrefix("history_") || name.hasPrefix("sqlite_")
    }

    private static let tables = """
        CREATE TABLE history_store(
            id INTEGER PRIMARY KEY CHECK (id = 1),
            format INTEGER NOT NULL,
            uuid TEXT NOT NULL,
            epoch INTEGER NOT NULL,
            created INTEGER NOT NULL,
            untracked_policy TEXT,
            purged_sequence INTEGER NOT NULL,
            purged_nonce INTEGER NOT NULL,
            published_sequence INTEGER,
            relay_owner TEXT,
            relay_expires INTEGER
        );
        CREATE TABLE history_entity(
            layout INTEGER PRIMARY KEY,
            entity INTEGER NOT NULL,
            name TEXT NOT NULL,
            is_current INTEGER NOT NULL,
            definition TEXT NOT NULL,
            fingerprint TEXT
        );
        CREATE TABLE history_transaction(
            sequence INTEGER PRIMARY KEY,
            nonce INTEGER NOT NULL,
            time INTEGER NOT NULL,
            author TEXT NOT NULL CHECK (author <> ''),
            context TEXT,
            origin TEXT NOT NULL,
            entities BLOB NOT NULL,
            change_count INTEGER NOT NULL,
            chunk_count INTEGER NOT NULL,
            changes BLOB NOT NULL
        );
        CREATE TABLE history_chunk(
            chunk INTEGER PRIMARY KEY,
            changes BLOB NOT NULL
        );
        CREATE TABLE history_publisher(
            origin TEXT PRIMARY KEY,
            confirmed_sequence INTEGER NOT NULL,
            heartbeat INTEGER NOT NULL
        ) WITHOUT ROWID;
        CREATE TABLE history_consumer(
            name TEXT PRIMARY KEY,
            author TEXT NOT NULL,
            role TEXT NOT NULL,
            user TEXT,
            state TEXT NOT NULL,
            floor_sequence INTEGER NOT NULL,
            epoch INTEGER NOT NULL,
            sequence INTEGER,
            nonce INTEGER,
            registered INTEGER NOT NULL,
            acknowledged INTEGER
        ) WITHOUT ROWID;
        CREATE TABLE history_untracked(
            id INTEGER PRIMARY KEY,
            layout INTEGER NOT NULL,
            operation INTEGER NOT NULL,
            key1, key2, key3, key4, key5, key6, key7, key8
        );
        CREATE TABLE history_audit(
            id INTEGER PRIMARY KEY,
            time INTEGER NOT NULL,
            kind TEXT NOT NULL,
            actor TEXT NOT NULL,
            count INTEGER NOT NULL,
            detail TEXT NOT NULL
        );
        """

    /// Proves that nothing but Tidings' own tables has the reserved prefix: a RENAME shows its new name to nobody before.
    static func checkNames(_ database: Database) throws {
        let sql = """
            SELECT name FROM sqlite_schema WHERE lower(name) GLOB 'history_*'
            UNION ALL SELECT 'temp.' || name FROM sqlite_temp_schema WHERE lower(name) GLOB 'history_*' ORDER BY 1
            """
        let names = try database.query(sql) { row in try row.get(0, as: String.self) }
        guard let foreign = names.first(where: { !tables.contains("CREATE TABLE \($0)(") }) else { return }
        throw HistoryError(
            .untrackable, "\(foreign) has the prefix history_, which belongs to Tidings: choose another name")
    }

    /// Proves that no table of another program's stands in the place of the one that announces savepoints.
    static func checkTransactionTable(_ database: Database) throws {
        let name = HistoryRecorder.transactionTable
        guard try database.first("SELECT count(*) FROM sqlite_schema WHERE lower(name) = ?", name, as: Int.self) == 0
        else {
            throw HistoryError(
                .damagedHistory, "\(database.path) has a table \(name), a name that belongs to Tidings: drop it")
        }
    }

    /// True where the database has been initialised as a store.
    static func exists(_ database: Database) throws -> Bool {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'history_store'"
        return try database.first(sql, as: Int.self) == 1
    }

    /// Creates the tables. Must run inside a write transaction.
    static func create(_ database: Database, clock: any HistoryClock) throws {
        let taken = try database.query("SELECT name FROM sqlite_schema WHERE lower(name) GLOB 'history_*'") {
            row -> String in try row.get(0)
        }
        guard taken.isEmpty else {
            throw HistoryError(
                .notAStore,
                "\(database.path) has tables of its own whose names begin with history_ (\(taken.joined(separator: ", "))): "
                    + "rename them first, the prefix belongs to Tidings")
        }
        try database.execute(tables)
        try database.execute(
            """
            INSERT INTO history_store(id, format, uuid, epoch, created, purged_sequence, purged_nonce)
            VALUES (1, ?, ?, 1, ?, 0, ?)
            """, format, UUID(), clock.microseconds, database.randomInt64())
    }

    /// The store's identity, of a file in this code's format. Nothing of the file is changed.
    ///
    /// Throws `storeReplaced` where another one is expected.
    static func storeID(_ database: Database, expected: UUID?) throws -> UUID {
        try database.transaction(.deferred) {
            try checkFormat(database)
            let found = try StoreState.read(database).storeID
            guard expected == nil || expected == found else { throw HistoryError.replaced(database.path, by: found) }
            return found
        }
    }

    /// The format of the store. Throws where there is none, or where it is not this code's.
    @discardableResult
    static func checkFormat(_ database: Database) throws -> Int64 {
        guard try exists(database) else {
            throw HistoryError(
                .notAStore,
                "\(database.path) is a database but not a Tidings store: run `tidings init` on it, or open it with create: true"
            )
        }
        guard let found = try database.first("SELECT format FROM history_store WHERE id = 1", as: Int64.self) else {
            throw HistoryError(
                .damagedHistory, "\(database.path): history_store has no row: restore the file from a backup")
        }
        guard found <= format else {
            throw HistoryError(
                .unsupportedFormat,
                "\(database.path) has history format \(found), this version reads up to \(format): upgrade Tidings here"
            )
        }
        guard found == format else {
            throw HistoryError(
                .unsupportedFormat,
                "\(database.path) has history format \(found), this version needs \(format): upgrade the store")
        }
        return found
    }
}
