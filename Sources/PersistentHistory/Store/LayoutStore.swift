internal import FoundationEssentials
internal import TidingsSQLite

/// Reads and writes layouts in `history_entity`. Runs inside the transaction of whoever calls.
enum LayoutStore {
    /// Every layout by number.
    static func readAll(_ database: Database) throws -> [Int64: HistoryLayout] {
        let layouts = try read("SELECT layout, entity, name, definition FROM history_entity", database)
        return Dictionary(uniqueKeysWithValues: layouts.map { ($0.id, $0) })
    }

    /// The layouts under which tables are tracked now.
    static func readCurrent(_ database: Database) throws -> [HistoryLayout] {
        try read(
            "SELECT layout, entity, name, definition FROM history_entity WHERE is_current ORDER BY layout", database)
    }

    private static func read(_ sql: String, _ database: Database) throws -> [HistoryLayout] {
        let decoder = JSONDecoder()
        return try database.query(sql) { row in
            let id: Int64 = try row.get(0)
            let text: String = try row.get(3)
            guard let definition = try? decoder.decode(HistoryLayout.Definition.self, from: Data(text.utf8)) else {
                throw HistoryError(
                    .damagedHistory, "\(database.path): layout \(id) in history_entity cannot be read: restore a backup"
                )
            }
            return HistoryLayout(id: id, entityID: try row.get(1), entity: try row.get(2), definition: definition)
        }
    }

    /// Stores a new current layout, of a known entity or (nil) of a new one. The one before, if any, stays readable.
    static func add(
        _ definition: HistoryLayout.Definition, entity: String, entityID: Int64?, _ database: Database
    ) throws -> HistoryLayout {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        let text = String(decoding: try encoder.encode(definition), as: UTF8.self)
        let number: Int64
        if let entityID {
            number = entityID
            try retire(entityID: entityID, database)
        } else {
            number = try database.first("SELECT coalesce(max(entity), 0) + 1 FROM history_entity") ?? 1
        }
        let sql = "INSERT INTO history_entity(entity, name, is_current, definition) VALUES (?, ?, 1, ?)"
        try database.execute(sql, number, entity, text)
        return HistoryLayout(
            id: database.lastInsertedRowID, entityID: number, entity: entity, definition: definition)
    }

    /// Ends the tracking of an entity; its layouts stay.
    static func retire(entityID: Int64, _ database: Database) throws {
        try database.execute("UPDATE history_entity SET is_current = 0 WHERE entity = ? AND is_current", entityID)
    }

    /// The number that an entity of this name had when it was tracked before; nil for a new name.
    static func formerEntityID(_ name: String, _ database: Database) throws -> Int64? {
        try database.first("SELECT max(entity) FROM history_entity WHERE name = ?", name, as: Int64?.self) ?? nil
    }
}

/// Differs wherever other layouts are stored; costs the same however many there are.
///
/// After an older copy was restored over the file, numbers are given anew: SQLite moves the schema's counter on for that
/// too.
struct LayoutMark: Equatable {
    private let cookie: Int64
    private let newest: Int64

    /// Must run inside the transaction that relies on it.
    ///
    /// [PRAGMA schema_version](https://www.sqlite.org/pragma.html#pragma_schema_version)
    static func read(_ database: Database) throws -> LayoutMark {
        let cookie = try database.first("PRAGMA main.schema_version", as: Int64.self)
        let newest = try database.first("SELECT coalesce(max(layout), 0) FROM main.history_entity", as: Int64.self)
        return LayoutMark(cookie: cookie ?? 0, newest: newest ?? 0)
    }
}
