internal import TidingsSQLite

/// The primary key of an entity under one of the layouts that it has or had.
package struct EntityKey: Sendable, Hashable {
    /// The entity's name, as the table was declared.
    package let entity: String
    /// The key's columns, in its order.
    package let columns: [String]
    /// True where the key is known to be the table's rowid, and so never anything but an integer.
    package let isRowID: Bool

    /// Makes a key.
    package init(entity: String, columns: [String], isRowID: Bool = false) {
        self.entity = entity
        self.columns = columns
        self.isRowID = isRowID
    }
}

extension HistoryStore {
    /// The keys of every entity under every layout, read in one transaction.
    package func entityKeys() async throws -> Set<EntityKey> {
        try await reader.read { database, _ in
            let layouts = try LayoutStore.readAll(database).values
            let tables = try Set(layouts.map(\.entity)).map { try TableInspector.describe($0, database) }
            return Set(
                layouts.map { layout in
                    let isRowID = tables.contains { $0.map { Self.isRowID(layout, of: $0) } ?? false }
                    return EntityKey(entity: layout.entity, columns: layout.keyNames, isRowID: isRowID)
                })
        }
    }

    /// Whether the key of a layout is the rowid of the table as it is now. The layout alone does not tell: a column
    /// declared INTEGER PRIMARY KEY DESC is none.
    ///
    /// [ROWIDs and the INTEGER PRIMARY KEY](https://www.sqlite.org/lang_createtable.html#rowids_and_the_integer_primary_key)
    private static func isRowID(_ layout: HistoryLayout, of table: TableDescription) -> Bool {
        guard let alias = table.rowIDAlias, !layout.definition.isKeyed, layout.keyColumns.count == 1,
            TableInspector.isSameName(layout.entity, table.name)
        else { return false }
        let column = layout.definition.columns[layout.keyColumns[0]]
        return column.name == table.columns[alias].name && column.type == table.columns[alias].type
    }
}
