internal import TidingsSQLite

/// The SQL of one page of a table.
///
/// Rows are paged by what tells them all apart: the rowid, since a primary key of a table that has one may be NULL, in
/// many rows; or the primary key of a table WITHOUT ROWID, which is never NULL.
struct SnapshotQuery {
    /// How a table's rows are paged.
    enum Paging: Sendable, Hashable {
        /// By the rowid, under the name that no column has taken from it.
        case rowID(String)
        /// By the primary key of a table WITHOUT ROWID.
        case key
        /// By number, where columns have taken all names of the rowid: inside one read transaction the order stays.
        case offset
    }

    let sql: String
    let values: [SQLiteValue]
    private let entity: HistorySnapshot.Entity
    private let start: Int64

    init(_ entity: HistorySnapshot.Entity, after position: [SQLiteValue]?) {
        self.entity = entity
        var columns = entity.columns.map(TableInspector.quoted)
        let keys = entity.keyColumns.map(TableInspector.quoted).joined(separator: ", ")
        var tail: String
        start = if case .integer(let number)? = position?.first { number } else { 0 }
        switch entity.paging {
        case .rowID(let name):
            columns.append(name)
            tail = position == nil ? "" : " WHERE \(name) > ?"
            tail += " ORDER BY \(name)"
        case .key:
            // With the collations and affinities of the columns, as their index has them.
            let marks = entity.keyColumns.map { _ in "?" }.joined(separator: ", ")
            tail = position == nil ? "" : " WHERE (\(keys)) > (\(marks))"
            tail += " ORDER BY \(keys)"
        case .offset:
            tail = position == nil ? "" : " LIMIT -1 OFFSET ?"
        }
        sql = "SELECT \(columns.joined(separator: ", ")) FROM main.\(TableInspector.quoted(entity.name))\(tail)"
        values = position ?? []
    }

    /// Where the page after these rows begins.
    func end(of rows: [HistoryValues], _ row: Row) -> [SQLiteValue] {
        switch entity.paging {
        case .rowID: [row.value(at: entity.columns.count)]
        case .key: entity.keyColumns.map { rows.last?[$0] ?? .null }
        case .offset: [.integer(start + Int64(rows.count))]
        }
    }

    /// How the rows of a layout's table are paged.
    static func paging(of layout: HistoryLayout, _ database: Database) throws -> Paging {
        guard !layout.definition.isKeyed else { return .key }
        let columns = try database.query("SELECT name FROM pragma_table_xinfo(?, 'main')", layout.entity) { row in
            try row.get(0, as: String.self)
        }
        let free = ["rowid", "_rowid_", "oid"].first { name in
            !columns.contains { TableInspector.isSameName($0, name) }
        }
        return free.map { .rowID($0) } ?? .offset
    }
}
