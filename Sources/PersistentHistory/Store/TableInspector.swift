internal import TidingsSQLite

/// A table as the schema describes it.
struct TableDescription {
    struct Column {
        let name: String
        let type: String
        let keyPosition: Int
        let defaultExpression: String?
        let isVirtual: Bool
        let isGenerated: Bool
        let affinity: Affinity
        let isReal: Bool
        let mayHoldNumbers: Bool
    }

    let name: String
    let isKeyed: Bool
    let columns: [Column]
    /// The position of the column that is the rowid by another name; nil where there is none.
    let rowIDAlias: Int?
}

/// Reads table descriptions and decides which tables can be tracked.
package enum TableInspector {
    /// The tables of the main schema that belong to the user, in order of name; virtual and shadow tables left out.
    static func userTables(_ database: Database) throws -> [String] {
        let sql = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' ORDER BY name"
        return try database.query(sql) { row in try row.get(0, as: String.self) }
            .filter { !HistorySchema.isReserved($0) }
    }

    /// Describes a table; nil where the main schema has no such table. The name comes back as it was declared.
    static func describe(_ name: String, _ database: Database) throws -> TableDescription? {
        let sql = """
            SELECT name, wr, strict FROM pragma_table_list
            WHERE schema = 'main' AND type = 'table' AND name = ? COLLATE NOCASE
            """
        let tables = try database.query(sql, name) { row in
            (name: try row.get(0, as: String.self), isKeyed: try row.get(1, as: Bool.self))
        }
        guard let table = tables.first else { return nil }
        let columnsSQL = "SELECT name, type, pk, dflt_value, hidden FROM pragma_table_xinfo(?, 'main') ORDER BY cid"
        let columns = try database.query(columnsSQL, table.name) { row -> TableDescription.Column in
            let type: String = try row.get(1)
            let hidden: Int = try row.get(4)
            let affinity = Affinity(declaredType: type)
            return TableDescription.Column(
                name: try row.get(0), type: type, keyPosition: try row.get(2),
                defaultExpression: try row.get(3), isVirtual: hidden == 2, isGenerated: hidden >= 2,
                affinity: affinity, isReal: affinity == .real, mayHoldNumbers: affinity != .text)
        }
        return TableDescription(
            name: table.name, isKeyed: table.isKeyed, columns: columns,
            rowIDAlias: try rowIDAlias(table.name, table.isKeyed, columns, database))
    }

    /// An INTEGER PRIMARY KEY has no index of its own, unlike every other primary key of a rowid table.
    private static func rowIDAlias(
        _ name: String, _ isKeyed: Bool, _ columns: [TableDescription.Column], _ database: Database
    ) throws -> Int? {
        let keys = columns.indices.filter { columns[$0].keyPosition > 0 }
        guard !isKeyed, keys.count == 1 else { return nil }
        let sql = "SELECT count(*) FROM pragma_index_list(?, 'main') WHERE origin = 'pk'"
        return try database.first(sql, name, as: Int.self) == 0 ? keys[0] : nil
    }

    /// Why a table cannot be tracked, with the remedy; nil where it can.
    static func obstacle(to table: TableDescription, _ options: TrackingOptions) -> String? {
        guard table.columns.contains(where: { $0.keyPosition > 0 }) else {
            return "table \(table.name) has no declared primary key, and rowids are not stable: "
                + "give it one (for example id INTEGER PRIMARY KEY), then track it"
        }
        return nameObstacle(table) ?? optionObstacle(table, options) ?? generatedColumnObstacle(table)
            ?? keyOrderObstacle(table)
    }

    /// SQLite tells names apart by their bytes, Swift's strings by what they mean to a reader.
    private static func nameObstacle(_ table: TableDescription) -> String? {
        guard Set(table.columns.map(\.name)).count < table.columns.count else { return nil }
        return "two columns of table \(table.name) differ in the Unicode normal form of their names only: rename one"
    }

    /// Whether SQLite takes two names for one: the case of ASCII letters does not count, nothing else is folded.
    package static func isSameName(_ left: String, _ right: String) -> Bool {
        func fold(_ byte: UInt8) -> UInt8 { (0x41...0x5A).contains(byte) ? byte | 0x20 : byte }
        return left.utf8.map(fold) == right.utf8.map(fold)
    }

    /// A name as SQL has it, whatever characters it holds.
    package static func quoted(_ name: String) -> String {
        "\"" + name.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\""
    }

    private static func optionObstacle(_ table: TableDescription, _ options: TrackingOptions) -> String? {
        let named = options.excludedColumns.union(options.redactedColumns).union(options.preservedColumns ?? [])
        let known = Set(table.columns.filter { !$0.isGenerated }.map(\.name))
        if let unknown = named.subtracting(known).min() {
            return "table \(table.name) has no recorded column \(unknown): check the tracking options"
        }
        let hidden = options.excludedColumns.union(options.redactedColumns)
        if let key = table.columns.first(where: { $0.keyPosition > 0 && hidden.contains($0.name) }) {
            return
                "column \(key.name) of table \(table.name) is part of the primary key and cannot be excluded or redacted"
        }
        return nil
    }

    /// SQLite up to 3.40 at least looks up column properties by the wrong number where a virtual column stands
    /// before stored ones: old values then come out as the rowid, or integers as reals. Such tables are refused.
    private static func generatedColumnObstacle(_ table: TableDescription) -> String? {
        guard !table.isKeyed, case .success(let indexing) = PreupdateIndexing.current, indexing.rowidTable == .storage
        else { return nil }
        let stored = table.columns.indices.filter { !table.columns[$0].isVirtual }
        let isMisread = stored.enumerated().contains { storageIndex, index in
            guard storageIndex != index else { return false }
            let column = table.columns[index]
            return index == table.rowIDAlias || storageIndex == table.rowIDAlias
                || (table.columns[storageIndex].isReal && !column.isReal && column.mayHoldNumbers)
        }
        guard isMisread else { return nil }
        return "table \(table.name) declares virtual generated columns before stored ones in a way that this SQLite "
            + "(\(Database.libraryVersion)) reports wrongly to hooks: declare the virtual columns last, or make them STORED"
    }

    /// SQLite up to 3.40 at least gives old values of a table without rowid the affinity of another column where the
    /// key's columns are not declared first: integers then come out as reals. Such tables are refused.
    private static func keyOrderObstacle(_ table: TableDescription) -> String? {
        guard table.isKeyed, case .success(let indexing) = PreupdateIndexing.current, indexing.misreadsKeyedTables
        else { return nil }
        let keys = table.columns.indices.filter { table.columns[$0].keyPosition > 0 }
            .sorted { table.columns[$0].keyPosition < table.columns[$1].keyPosition }
        let others = table.columns.indices.filter { table.columns[$0].keyPosition == 0 && !table.columns[$0].isVirtual }
        let isMisread = (keys + others).enumerated().contains { place, index in
            table.columns[place].isReal && !table.columns[index].isReal && table.columns[index].mayHoldNumbers
        }
        guard isMisread else { return nil }
        return
            "table \(table.name) is WITHOUT ROWID and its columns stand in another order than in its key's index, next "
            + "to REAL columns: this SQLite (\(Database.libraryVersion)) reports its integers as reals to hooks; declare "
            + "the key's columns first, in the key's order, and virtual generated columns last"
    }

    /// What a layout of the table records.
    static func definition(_ table: TableDescription, _ options: TrackingOptions) -> HistoryLayout.Definition {
        let columns = table.columns.filter { !$0.isGenerated && !options.excludedColumns.contains($0.name) }
            .map {
                HistoryColumn(
                    name: $0.name, type: $0.type, keyPosition: $0.keyPosition, defaultExpression: $0.defaultExpression)
            }
        return HistoryLayout.Definition(columns: columns, options: options, isKeyed: table.isKeyed)
    }
}

/// The affinity that a declared type gives to a column.
///
/// [Determination of column affinity](https://www.sqlite.org/datatype3.html#determination_of_column_affinity)
enum Affinity: String {
    case integer, text, blob, real, numeric

    init(declaredType: String) {
        let type = declaredType.uppercased()
        if type.contains("INT") {
            self = .integer
        } else if ["CHAR", "CLOB", "TEXT"].contains(where: type.contains) {
            self = .text
        } else if type.isEmpty || type.contains("BLOB") {
            self = .blob
        } else if ["REAL", "FLOA", "DOUB"].contains(where: type.contains) {
            self = .real
        } else {
            self = .numeric
        }
    }
}
