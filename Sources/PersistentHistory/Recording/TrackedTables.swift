internal import Glibc
internal import TidingsSQLite

/// The tables that are tracked now, with the way to capture each.
struct TrackedTables {
    private struct Entry {
        var layout: HistoryLayout
        /// nil while the table does not exist.
        var plan: CapturePlan?
        /// Where the table's rows begin in the file, which a rename leaves as it is.
        var rootPage: Int64?
    }

    private var entries: [Entry] = []
    /// The user's tables, tracked or not, as they were at the last look.
    private var knownTables: Set<String> = []
    private var plans: [CapturePlan] = []
    /// The plan of the row before, which most often is the next one's too.
    private var last: CapturePlan?

    /// True where a tracked table does not exist at the moment.
    var hasMissing: Bool { entries.count != plans.count }

    var layouts: [HistoryLayout] { entries.map(\.layout) }

    /// The plan for the table of a change; nil where it is not tracked.
    @inline(__always)
    mutating func plan(for change: borrowing PreupdateChange) -> CapturePlan? {
        // `main`, and neither `temp` nor an attached database.
        guard change.database[0] == 0x6D, strcmp(change.database, "main") == 0 else { return nil }
        if let last, strcmp(last.name, change.table) == 0 { return last }
        for plan in plans where strcmp(plan.name, change.table) == 0 {
            last = plan
            return plan
        }
        return nil
    }

    /// Takes down what happened to a table, with a detail for people.
    typealias Record = (RecordFormat.Kind, HistoryLayout, _ detail: String) -> Void

    /// Compares the tables with the layouts under which they are tracked. A changed table gets a new layout and a
    /// record, a missing one waits for the end of the transaction: it may be on its way to being rebuilt.
    ///
    /// - Parameter isOwnChange: whether this very transaction changed the schema. What makes a table untrackable is then
    ///   an error that takes the change back; done by somebody else, it ends the tracking with a break that all can see.
    ///   A table that somebody else has altered gets a break too, behind its new layout: what was done to the rows
    ///   cannot be told from the columns.
    mutating func reload(_ database: Database, isOwnChange: Bool, record: Record) throws {
        let missing = Set(entries.filter { $0.plan == nil }.map(\.layout.entityID))
        if isOwnChange { try refuseRenames(database) }
        // Taken over only when all is known: half a list would lose changes.
        var entries: [Entry] = []
        for layout in try LayoutStore.readCurrent(database) {
            guard let table = try TableInspector.describe(layout.entity, database) else {
                entries.append(Entry(layout: layout, plan: nil))
                continue
            }
            if let obstacle = Self.obstacle(to: table, layout) {
                guard !isOwnChange else {
                    throw HistoryError(
                        .untrackable,
                        "a tracked table would be changed so that it cannot be tracked any more: \(obstacle)")
                }
                try LayoutStore.retire(entityID: layout.entityID, database)
                record(.captureBreak, layout, obstacle)
                continue
            }
            entries.append(
                try Self.entry(
                    layout, table, wasMissing: missing.contains(layout.entityID), isOwnChange: isOwnChange, database,
                    record))
        }
        self.entries = entries
        index()
        knownTables = Set(try TableInspector.userTables(database))
    }

    /// Forgets what was known, where a rollback may have changed it.
    mutating func forget() {
        entries = []
        knownTables = []
        index()
    }

    /// A renamed table would go on unrecorded: a rename is refused rather than taken for a drop.
    private func refuseRenames(_ database: Database) throws {
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage = ?"
        for entry in entries {
            guard let rootPage = entry.rootPage, let name = try database.first(sql, rootPage, as: String.self),
                name.lowercased() != entry.layout.entity.lowercased(), !knownTables.contains(name)
            else { continue }
            throw HistoryError(
                .untrackable,
                "table \(entry.layout.entity) is tracked and cannot be renamed to \(name): untrack it, rename it, track it anew"
            )
        }
    }

    /// The layout's options, as far as they name columns that the table still has.
    private static func options(_ layout: HistoryLayout, _ table: TableDescription) -> TrackingOptions {
        var options = layout.definition.options
        let names = Set(table.columns.map(\.name))
        options.excludedColumns.formIntersection(names)
        options.redactedColumns.formIntersection(names)
        options.preservedColumns?.formIntersection(names)
        return options
    }

    /// Why a table cannot be tracked on under its present options; nil where it can.
    private static func obstacle(to table: TableDescription, _ layout: HistoryLayout) -> String? {
        let options = options(layout, table)
        let former = layout.definition.options
        let gone = former.excludedColumns.union(former.redactedColumns)
            .subtracting(options.excludedColumns.union(options.redactedColumns))
        let known = Set(layout.columnNames).union(former.excludedColumns)
        let hasNewColumn = table.columns.contains { !$0.isGenerated && !known.contains($0.name) }
        if let column = gone.min(), hasNewColumn {
            return "column \(column) of table \(table.name) is excluded or redacted and may have been renamed: "
                + "its values must not leave the table under another name; untrack the table, change it, track it anew"
        }
        return TableInspector.obstacle(to: table, options)
    }

    private static func entry(
        _ layout: HistoryLayout, _ table: TableDescription, wasMissing: Bool, isOwnChange: Bool, _ database: Database,
        _ record: Record
    ) throws -> Entry {
        let definition = TableInspector.definition(table, options(layout, table))
        var current = layout
        if wasMissing || definition != layout.definition || table.name != layout.entity {
            current = try LayoutStore.add(definition, entity: table.name, entityID: layout.entityID, database)
            record(wasMissing ? .rebuild : .alter, current, "")
            // A column that went and one that came look like one that was renamed; what rows hold only the table tells.
            if !isOwnChange {
                record(
                    .captureBreak, current,
                    "another program changed table \(table.name): what its rows hold now is not in the history")
            }
        }
        let defaults = try CapturePlan.defaults(of: table)
        let plan = try CapturePlan(layout: current, table: table, defaults: defaults)
        let sql = "SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = ?"
        return Entry(layout: current, plan: plan, rootPage: try database.first(sql, table.name, as: Int64.self))
    }

    /// Ends the tracking of tables that do not exist at the end of the transaction.
    mutating func settleMissing(_ database: Database, record: Record) throws {
        for entry in entries where entry.plan == nil {
            try LayoutStore.retire(entityID: entry.layout.entityID, database)
            record(.drop, entry.layout, "")
        }
        entries.removeAll { $0.plan == nil }
    }

    private mutating func index() {
        plans = entries.compactMap(\.plan)
        last = nil
    }
}
