internal import TidingsSQLite

extension HistoryRecorder {
    /// Tracks tables by name. All or none: the first that cannot be tracked stops everything.
    func track(_ names: [String], _ options: TrackingOptions) throws {
        var tables: [TableDescription] = []
        for table in try names.map({ try describe($0) })
        where !tables.contains(where: { TableInspector.isSameName($0.name, table.name) }) {
            tables.append(table)
        }
        let obstacles = tables.compactMap { TableInspector.obstacle(to: $0, options) }
        guard obstacles.isEmpty else {
            throw HistoryError(.untrackable, "cannot track: \(obstacles.joined(separator: "; "))")
        }
        for table in tables { try track(table, options) }
        try reloadTracking()
    }

    private func track(_ table: TableDescription, _ options: TrackingOptions) throws {
        let definition = TableInspector.definition(table, options)
        if let current = tracking.layouts.first(where: { $0.entity.utf8.elementsEqual(table.name.utf8) }) {
            guard current.definition != definition else { return }
            record(.alter, try LayoutStore.add(definition, entity: table.name, entityID: current.entityID, database))
        } else {
            let former = try LayoutStore.formerEntityID(table.name, database)
            record(.track, try LayoutStore.add(definition, entity: table.name, entityID: former, database))
        }
    }

    /// Untracks tables by name; those that are not tracked are an error.
    func untrack(_ names: [String]) throws {
        for name in names {
            guard let layout = tracking.layouts.first(where: { TableInspector.isSameName($0.entity, name) }) else {
                throw HistoryError(.noSuchEntity, "table \(name) is not tracked: `tidings info` lists those that are")
            }
            try LayoutStore.retire(entityID: layout.entityID, database)
            record(.untrack, layout)
        }
        try reloadTracking()
    }

    private func describe(_ name: String) throws -> TableDescription {
        guard !HistorySchema.isReserved(name) else {
            throw HistoryError(.untrackable, "table \(name) cannot be tracked: its name is reserved")
        }
        if let table = try TableInspector.describe(name, database) { return table }
        let sql = "SELECT type FROM pragma_table_list WHERE name = ? COLLATE NOCASE ORDER BY schema = 'main' DESC"
        switch try database.first(sql, name, as: String.self) {
        case nil:
            throw HistoryError(.noSuchEntity, "there is no table \(name): check the name, or create it first")
        case "table":
            throw HistoryError(.untrackable, "table \(name) is not in the main schema, and only that is tracked")
        case let type?:
            throw HistoryError(
                .untrackable,
                "\(name) is a \(type) table, which has no rows of its own to track: track what it is made of")
        }
    }
}
