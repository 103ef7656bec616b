internal import PersistentHistory
internal import TidingsSQLite

/// The tables of a projection's file as a transaction on it finds and leaves them. Lives no longer than the transaction.
struct ProjectionTables {
    private let database: Database
    /// The sequence of the snapshot from which a table was loaded last, by the name in lower case: earlier changes of it
    /// are in its rows.
    private var loaded: [String: Int64] = [:]
    /// The tables that were met, by the number of their layout.
    private var tables: [Int64: ProjectedTable] = [:]
    private var updates: [Int64: [[String]: String]] = [:]

    init(_ database: Database) throws {
        self.database = database
        let rows = try database.query("SELECT entity, loaded FROM projection_entity") { row in
            (try row.get(0, as: String.self), try row.get(1, as: Int64.self))
        }
        for (name, sequence) in rows { loaded[name.lowercased()] = sequence }
    }

    /// True where changes of an entity at a sequence are in its rows already.
    func isLoaded(_ entity: String, through sequence: Int64) -> Bool {
        loaded[entity.lowercased()].map { sequence <= $0 } ?? false
    }

    // MARK: Tables

    /// Makes a table anew, empty, with the sequence up to which its rows will be loaded.
    mutating func recreate(_ table: ProjectedTable, loaded sequence: Int64) throws {
        try drop(table.name)
        guard !ProjectionFile.isReserved(table.name) else {
            throw HistoryError(
                .invalidRequest,
                "\(database.path): the entity \(table.name) has the name of a table of the projection itself: "
                    + "leave it out of the projection's entities")
        }
        let taken = "SELECT count(*) FROM sqlite_schema WHERE name = ? COLLATE NOCASE"
        guard try database.first(taken, table.name, as: Int.self) == 0 else {
            throw HistoryError(
                .invalidRequest,
                "\(database.path) holds a \(table.name) that the projection has not made: "
                    + "drop it, or give the projection a file of its own")
        }
        try database.execute(table.createSQL)
        try database.execute("INSERT INTO projection_entity(entity, loaded) VALUES (?, ?)", table.name, sequence)
        loaded[table.name.lowercased()] = sequence
    }

    /// Drops a table, where the projection has it.
    mutating func drop(_ name: String) throws {
        guard loaded.removeValue(forKey: name.lowercased()) != nil else { return }
        try database.execute("DROP TABLE IF EXISTS \(ProjectedTable.quoted(name))")
        try database.execute("DELETE FROM projection_entity WHERE entity = ?", name)
        forgetStatements()
    }

    /// Drops every table, or those with names that a condition is true of.
    mutating func dropAll(where condition: (String) -> Bool = { _ in true }) throws {
        let sql = "SELECT entity FROM projection_entity"
        let names = try database.query(sql) { try $0.get(0, as: String.self) }
        for name in names where condition(name) { try drop(name) }
    }

    private mutating func forgetStatements() {
        tables = [:]
        updates = [:]
    }

    /// What becomes of a table through a record about itself.
    mutating func apply(_ kind: HistorySchemaChange.Kind, _ layout: HistoryLayout) throws {
        switch kind {
        case .track:
            if loaded[layout.entity.lowercased()] == nil {
                try recreate(ProjectedTable(layout), loaded: 0)
            } else {
                try alter(ProjectedTable(layout))
            }
        case .alter: try alter(ProjectedTable(layout))
        // The rows of the table that was made anew follow, or the consumer loads them.
        case .rebuild: try recreate(ProjectedTable(layout), loaded: 0)
        // Rows that nothing keeps in step are worse than none.
        case .untrack, .drop: try drop(layout.entity)
        case .captureBreak: break
        }
    }

    /// The table under a layout, made or altered where it is not there as the layout has it.
    private mutating func table(_ layout: HistoryLayout) throws -> ProjectedTable {
        if let known = tables[layout.id] { return known }
        let table = ProjectedTable(layout)
        if loaded[table.name.lowercased()] == nil {
            try recreate(table, loaded: 0)
        } else {
            try addColumns(table, existing: columns(of: table.name))
        }
        tables[layout.id] = table
        return table
    }

    private func columns(of name: String) throws -> [(name: String, type: String)] {
        try database.query("SELECT name, type FROM pragma_table_info(?)", name) { row in
            (try row.get(0, as: String.self), try row.get(1, as: String.self))
        }
    }

    /// Gives a table the columns of another layout. Rows keep what they have; new columns have their default.
    private mutating func alter(_ table: ProjectedTable) throws {
        forgetStatements()
        guard loaded[table.name.lowercased()] != nil else { return try recreate(table, loaded: 0) }
        var existing = try columns(of: table.name)
        // One name in the place of another: the column was renamed.
        let differing =
            existing.count == table.columns.count
            ? existing.indices.filter { existing[$0].name != table.columns[$0].name } : []
        if differing.count == 1, let index = differing.first, existing[index].type == table.columns[index].type,
            !existing.contains(where: { TableInspector.isSameName($0.name, table.columns[index].name) })
        {
            let former = ProjectedTable.quoted(existing[index].name)
            let name = ProjectedTable.quoted(table.columns[index].name)
            try database.execute("ALTER TABLE \(table.quotedName) RENAME COLUMN \(former) TO \(name)")
            existing = try columns(of: table.name)
        }
        let types = Dictionary(table.columns.map { ($0.name, $0.type) }, uniquingKeysWith: { first, _ in first })
        guard existing.allSatisfy({ types[$0.name] == $0.type }) else { return try copy(table, from: existing) }
        try addColumns(table, existing: existing)
    }

    private func addColumns(_ table: ProjectedTable, existing: [(name: String, type: String)]) throws {
        let names = Set(existing.map(\.name))
        for column in table.columns where !names.contains(column.name) {
            let add = "ALTER TABLE \(table.quotedName) ADD COLUMN \(ProjectedTable.quoted(column.name)) \(column.type)"
            // A default that is no constant holds for no row that is there.
            if let expression = column.defaultExpression,
                (try? database.execute("\(add) DEFAULT \(expression)")) != nil
            {
                continue
            }
            try database.execute(add)
        }
    }

    /// Makes a table anew under another layout and fills in the columns that stay.
    private mutating func copy(_ table: ProjectedTable, from existing: [(name: String, type: String)]) throws {
        let sequence = loaded[table.name.lowercased()] ?? 0
        let names = Set(table.columns.map(\.name))
        let kept = existing.map(\.name).filter { names.contains($0) }
        guard table.key.allSatisfy({ kept.contains($0) }) else { return try recreate(table, loaded: sequence) }
        let former = ProjectedTable.quoted(ProjectionFile.formerTable)
        try database.execute("ALTER TABLE \(table.quotedName) RENAME TO \(former)")
        try recreate(table, loaded: sequence)
        let list = table.list(kept)
        try database.execute("INSERT OR REPLACE INTO \(table.quotedName)(\(list)) SELECT \(list) FROM \(former)")
        try database.execute("DROP TABLE \(former)")
    }

    // MARK: Rows

    /// Puts rows of a snapshot in.
    func insert(_ rows: [HistoryValues], into table: ProjectedTable) throws {
        guard let columns = rows.first?.columns else { return }
        try database.withStatement(table.insertSQL(columns)) { statement in
            for row in rows { try Self.run(statement, row.values) }
        }
    }

    /// Applies a change. What it has no row for is left out, what stands in its place is replaced: changes that are in
    /// the rows already do no harm.
    mutating func apply(_ change: HistoryChange) throws {
        let table = try table(change.layout)
        let decoded = change.decoded()
        switch decoded.operation {
        case .insert:
            guard let row = decoded.after else { return }
            try run(table.insertSQL(row.columns), row.values)
        case .update:
            guard let after = decoded.after, !after.isEmpty else { return }
            let place = place(of: decoded, in: table)
            try run(updateSQL(after.columns, table, place.sql, change.layout.id), after.values + place.values)
            if database.changes == 0 { try insertWhole(decoded, into: table) }
        case .delete:
            let place = place(of: decoded, in: table)
            try run(table.deleteSQL(place: place.sql), place.values)
        }
    }

    /// An update that tells the whole row is as good as an insert where there is no row.
    private func insertWhole(_ change: DecodedChange, into table: ProjectedTable) throws {
        guard let before = change.before, let after = change.after, !change.key.values.contains(.null) else { return }
        let row = table.columns.map { column in (column.name, after[column.name] ?? before[column.name]) }
        guard row.allSatisfy({ $0.1 != nil }) else { return }
        try run(table.insertSQL(row.map(\.0)), row.map { $0.1 ?? .null })
    }

    private func place(of change: DecodedChange, in table: ProjectedTable) -> (sql: String, values: [SQLiteValue]) {
        guard change.key.values.contains(.null), let before = change.before else {
            return (table.keyCondition, change.key.values)
        }
        return (table.rowCondition(before.columns), before.values.flatMap { [$0, $0] })
    }

    private mutating func updateSQL(
        _ names: [String], _ table: ProjectedTable, _ place: String, _ layout: Int64
    ) -> String {
        // A key that holds a NULL has a condition of its own.
        guard place == table.keyCondition else { return table.updateSQL(names, place: place) }
        if let known = updates[layout]?[names] { return known }
        let sql = table.updateSQL(names, place: place)
        updates[layout, default: [:]][names] = sql
        return sql
    }

    private func run(_ sql: String, _ values: [SQLiteValue]) throws {
        try database.withStatement(sql) { statement in try Self.run(statement, values) }
    }

    private static func run(_ statement: Statement, _ values: [SQLiteValue]) throws {
        for (index, value) in values.enumerated() { try value.bind(to: statement, at: index + 1) }
        while try statement.step() {}
    }
}
