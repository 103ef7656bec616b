internal import Glibc
internal import TidingsSQLite

/// The tables that are tracked now, with the way to capture each.
struct TrackedTables {
    private struct Entry {
        var layout: HistoryLayout
        /// nil while the table does not exist.
        var plan: CapturePlan?
    }

    private var entries: [Entry] = []
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

    /// Compares the tables with the layouts under which they are tracked. A changed table gets a new layout and a
    /// record, a missing one waits for the end of the transaction: it may be on its way to being rebuilt.
    mutating func reload(
        _ database: Database, record: (RecordFormat.Kind, HistoryLayout) -> Void
    ) throws {
        let missing = Set(entries.filter { $0.plan == nil }.map(\.layout.entityID))
        entries = []
        for layout in try LayoutStore.readCurrent(database) {
            guard let table = try TableInspector.describe(layout.entity, database) else {
                entries.append(Entry(layout: layout, plan: nil))
                continue
            }
            let entry = try Self.entry(
                layout, table, wasMissing: missing.contains(layout.entityID), database, record: record)
            entries.append(entry)
        }
        index()
    }

    private static func entry(
        _ layout: HistoryLayout, _ table: TableDescription, wasMissing: Bool, _ database: Database,
        record: (RecordFormat.Kind, HistoryLayout) -> Void
    ) throws -> Entry {
        var options = layout.definition.options
        let names = Set(table.columns.map(\.name))
        options.excludedColumns.formIntersection(names)
        options.redactedColumns.formIntersection(names)
        options.preservedColumns?.formIntersection(names)
        if let obstacle = TableInspector.obstacle(to: table, options) {
            throw HistoryError(
                .untrackable, "a tracked table was changed so that it cannot be tracked any more: \(obstacle)")
        }
        let definition = TableInspector.definition(table, options)
        var current = layout
        if wasMissing || definition != layout.definition || table.name != layout.entity {
            current = try LayoutStore.add(definition, entity: table.name, entityID: layout.entityID, database)
            record(wasMissing ? .rebuild : .alter, current)
        }
        let defaults = try CapturePlan.defaults(of: table)
        return Entry(layout: current, plan: try CapturePlan(layout: current, table: table, defaults: defaults))
    }

    /// Ends the tracking of tables that do not exist at the end of the transaction.
    mutating func settleMissing(
        _ database: Database, record: (RecordFormat.Kind, HistoryLayout) -> Void
    ) throws {
        for entry in entries where entry.plan == nil {
            try LayoutStore.retire(entityID: entry.layout.entityID, database)
            record(.drop, entry.layout)
        }
        entries.removeAll { $0.plan == nil }
    }

    private mutating func index() {
        plans = entries.compactMap(\.plan)
        last = nil
    }
}
