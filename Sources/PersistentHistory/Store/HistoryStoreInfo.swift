public import FoundationEssentials
internal import TidingsSQLite

/// What there is to know about a store at one moment.
public struct HistoryStoreInfo: Sendable {
    /// A tracked table.
    public struct Entity: Sendable {
        /// The table's name.
        public let name: String
        /// The recorded columns.
        public let columns: [String]
        /// The columns of the primary key, in its order.
        public let keyColumns: [String]
        /// What is recorded.
        public let options: TrackingOptions
    }

    /// A table of the user's that is not tracked.
    public struct UntrackedTable: Sendable {
        /// The table's name.
        public let name: String
        /// Why it cannot be tracked; nil where it can.
        public let obstacle: String?
    }

    /// The path of the file.
    public let path: String
    /// The store's identity.
    public let storeID: UUID
    /// The version of the history's format.
    public let format: Int64
    /// The newest transaction.
    public let head: HistoryToken
    /// The last purged transaction.
    public let oldest: HistoryToken
    /// The number of transactions in the history.
    public let transactionCount: Int64
    /// The size of the recorded history in bytes, without what SQLite adds: exact for up to 50,000 transactions, beyond
    /// that an estimate from samples, so that asking never takes long.
    public let historySize: Int64
    /// The time of the oldest transaction, by its writer's clock.
    public let oldestTime: Date?
    /// The time of the newest transaction, by its writer's clock.
    public let newestTime: Date?
    /// The size of the database file in bytes, without its log.
    public let fileSize: Int64
    /// The sequence up to which the broker has confirmed everything; nil while the store is not published.
    public let publishedSequence: Int64?
    /// The tracked tables, in order of name.
    public let entities: [Entity]
    /// The tables that are not tracked, in order of name.
    public let untrackedTables: [UntrackedTable]
}

extension HistoryStore {
    /// What there is to know about the store, read in one transaction.
    public func info() async throws -> HistoryStoreInfo {
        let path = path
        return try await reader.read { database, state in
            let head = try state.head(database)
            let layouts = try LayoutStore.readCurrent(database).sorted { $0.entity < $1.entity }
            let tracked = Set(layouts.map(\.entity))
            let size = try database.first(
                "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", as: Int64.self)
            return HistoryStoreInfo(
                path: path, storeID: state.storeID, format: try HistorySchema.checkFormat(database), head: head,
                oldest: state.mark, transactionCount: head.sequence - state.purgedSequence,
                historySize: try Self.historySize(state.purgedSequence + 1, head.sequence, database),
                oldestTime: try Self.time("ASC", database), newestTime: try Self.time("DESC", database),
                fileSize: size ?? 0, publishedSequence: state.publishedSequence,
                entities: layouts.map {
                    HistoryStoreInfo.Entity(
                        name: $0.entity, columns: $0.columnNames, keyColumns: $0.keyNames,
                        options: $0.definition.options)
                },
                untrackedTables: try Self.untracked(tracked, database))
        }
    }

    private static let sizeSamples: Int64 = 50
    private static let sizeSampleLength: Int64 = 1000

    private static func historySize(_ first: Int64, _ last: Int64, _ database: Database) throws -> Int64 {
        // A chunk holds a good part of a megabyte: there are few, and their lengths stand in their rows' headers.
        let chunks = try database.first("SELECT total(length(changes)) FROM history_chunk", as: Double.self) ?? 0
        let sql = """
            SELECT total(length(changes) + length(entities) + length(author) + length(origin)) FROM history_transaction
            WHERE sequence BETWEEN ? AND ?
            """
        func size(_ first: Int64, _ last: Int64) throws -> Double {
            try database.first(sql, first, last, as: Double.self) ?? 0
        }
        let count = last - first + 1
        guard count > sizeSamples * sizeSampleLength else { return Int64(chunks + (try size(first, last))) }
        var total = 0.0
        for sample in 0..<sizeSamples {
            let start = first + sample * (count - sizeSampleLength) / (sizeSamples - 1)
            total += try size(start, start + sizeSampleLength - 1)
        }
        return Int64(chunks + total * Double(count) / Double(sizeSamples * sizeSampleLength))
    }

    private static func time(_ order: String, _ database: Database) throws -> Date? {
        let sql = "SELECT time FROM history_transaction ORDER BY sequence \(order) LIMIT 1"
        return try database.first(sql, as: Int64.self).map { Date(microsecondsSince1970: $0) }
    }

    private static func untracked(
        _ tracked: Set<String>, _ database: Database
    ) throws -> [HistoryStoreInfo.UntrackedTable] {
        try TableInspector.userTables(database).filter { !tracked.contains($0) }.compactMap { name in
            guard let table = try TableInspector.describe(name, database) else { return nil }
            return HistoryStoreInfo.UntrackedTable(
                name: name, obstacle: TableInspector.obstacle(to: table, TrackingOptions()))
        }
    }
}
