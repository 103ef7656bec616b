internal import TidingsSQLite

/// Differs wherever a table or its tracking may have changed; far cheaper to read than those are.
struct SchemaMark: Equatable {
    /// SQLite's own counter, which every change of the schema moves on.
    private let cookie: Int64
    /// Layouts are only ever added, and only ever retired: these two tell every change of them.
    private let newestLayout: Int64
    private let currentLayouts: Int64

    /// Must run inside the transaction that relies on it.
    ///
    /// [PRAGMA schema_version](https://www.sqlite.org/pragma.html#pragma_schema_version)
    static func read(_ database: Database) throws -> SchemaMark {
        let cookie = try database.first("PRAGMA main.schema_version", as: Int64.self)
        let sql = "SELECT coalesce(max(layout), 0), coalesce(sum(is_current), 0) FROM main.history_entity"
        let layouts = try database.query(sql) { row in
            (newest: try row.get(0, as: Int64.self), current: try row.get(1, as: Int64.self))
        }
        return SchemaMark(
            cookie: cookie ?? 0, newestLayout: layouts.first?.newest ?? 0, currentLayouts: layouts.first?.current ?? 0)
    }
}
