internal import FoundationEssentials
internal import TidingsSQLite

/// The SQL of a page: the window of sequences, and every filter that SQLite can decide without decoding.
struct PageQuery {
    let sql: String
    /// True where SQLite leaves no transaction of the window out, so that each follows the one before.
    let meetsEveryTransaction: Bool
    private let values: [SQLiteValue]

    init(_ request: HistoryRequest, _ window: ClosedRange<Int64>, content: PageContent) throws {
        var clauses = ["sequence BETWEEN ? AND ?"]
        var values: [SQLiteValue] = [.integer(window.lowerBound), .integer(window.upperBound)]

        func add(_ clause: String, _ more: [SQLiteValue]) {
            clauses.append(clause)
            values += more
        }
        func list(_ count: Int) -> String { "(" + Array(repeating: "?", count: count).joined(separator: ", ") + ")" }

        if let authors = request.authors {
            add("author IN \(list(authors.count))", authors.sorted().map { .text($0) })
        }
        if !request.excludedAuthors.isEmpty {
            let excluded = request.excludedAuthors.sorted()
            add("author NOT IN \(list(excluded.count))", excluded.map { .text($0) })
        }
        if let names = request.contextNames {
            let named = names.compactMap { $0 }.sorted()
            let unnamed = names.contains(nil) ? " OR context IS NULL" : ""
            add("(context IN \(list(named.count))\(unnamed))", named.map { .text($0) })
        }
        if let origins = request.origins {
            add("origin IN \(list(origins.count))", origins.map(\.description).sorted().map { .text($0) })
        }
        if let processes = request.processIDs {
            let tests = processes.sorted().map { _ in "origin LIKE ?" }
            let patterns = processes.sorted().map { SQLiteValue.text("%:\($0):________________") }
            add(tests.isEmpty ? "0" : "(" + tests.joined(separator: " OR ") + ")", patterns)
        }
        if let since = request.since { add("time >= ?", [.integer(since.microsecondsSince1970)]) }
        if let before = request.before { add("time < ?", [.integer(before.microsecondsSince1970)]) }

        meetsEveryTransaction = clauses.count == 1

        // The encoded changes come last, so that SQLite reads a large row's further pages only where they are asked for.
        let columns = "sequence, nonce, time, author, context, origin, entities, change_count, chunk_count, changes"
        let direction = request.order == .oldestFirst ? "ASC" : "DESC"
        sql = """
            SELECT \(columns) FROM history_transaction WHERE \(clauses.joined(separator: " AND ")) \
            ORDER BY sequence \(direction)
            """
        self.values = values
    }

    func bind(to statement: Statement) throws(SQLiteError) {
        for (index, value) in values.enumerated() { try value.bind(to: statement, at: index + 1) }
    }
}

/// Collects the transactions of a page over one array of bytes.
struct PageBuilder {
    let state: StoreState
    let layouts: LayoutTable
    let request: HistoryRequest
    let content: PageContent
    let filter: ChangeFilter?
    private var bytes: [UInt8] = []
    private var records: [PageTable.Record] = []
    private var texts: [String] = []
    private var entries: [EntitySummary.Entry] = []
    private var authors = RepeatingText()
    private var contextNames = RepeatingText()
    private var origins = RepeatingText()

    /// - Parameter expectedBytes: how large the page will probably be.
    init(
        state: StoreState, layouts: LayoutTable, request: HistoryRequest, content: PageContent, expectedBytes: Int
    ) throws {
        self.state = state
        self.layouts = layouts
        self.request = request
        self.content = content
        filter = try Self.filter(request, layouts)
        if content == .transactionsWithChanges { bytes.reserveCapacity(expectedBytes) }
    }

    var count: Int { records.count }
    var byteCount: Int { bytes.count }

    /// Reads what a transaction did to which entity; the entries stay with the page unless they are forgotten.
    mutating func readSummary(_ row: Row) throws(HistoryError) -> Range<Int> {
        let start = entries.count
        try EntitySummary.decode(row.borrowedBytes(at: 6), into: &entries)
        return start..<entries.count
    }

    /// The entries of a summary that was read.
    func summary(_ positions: Range<Int>) -> ArraySlice<EntitySummary.Entry> { entries[positions] }

    mutating func forget(_ summary: Range<Int>) { entries.removeSubrange(summary) }

    /// Adds the transaction of a row whose summary was read. False where its changes are gone, which are never none.
    mutating func append(_ row: Row, sequence: Int64, nonce: UInt64, summary: Range<Int>) -> Bool {
        let start = bytes.count
        let hasChanges = content == .transactionsWithChanges
        if hasChanges { bytes.append(contentsOf: row.borrowedBytes(at: 9)) }
        guard !hasChanges || bytes.count > start else { return false }
        let isNamed = row.storageClass(at: 4) != .null
        records.append(
            PageTable.Record(
                sequence: sequence, nonce: nonce, microseconds: row.int64(at: 2),
                author: authors.position(of: row.borrowedBytes(at: 3), in: &texts),
                contextName: isNamed ? contextNames.position(of: row.borrowedBytes(at: 4), in: &texts) : nil,
                origin: origins.position(of: row.borrowedBytes(at: 5), in: &texts),
                changeCount: Int(row.int64(at: 7)), chunkCount: hasChanges ? row.int64(at: 8) : 0,
                entries: summary, changes: start..<bytes.count))
        return true
    }

    func finish(source: HistoryReader) -> [HistoryTransaction] {
        let context = ChangeContext(
            bytes: bytes, storeID: state.storeID, layouts: layouts, filter: filter, source: source)
        let page = PageTable(
            context: context, holdsChanges: content == .transactionsWithChanges, epoch: state.epoch, texts: texts,
            entries: entries)
        return records.map { HistoryTransaction(page: page, record: $0) }
    }

    private static func filter(_ request: HistoryRequest, _ layouts: LayoutTable) throws(HistoryError) -> ChangeFilter?
    {
        guard request.filtersChanges else { return nil }
        var entityIDs: Set<Int64>?
        if let names = request.entities {
            var found: Set<Int64> = []
            for name in names.sorted() {
                let ids = layouts.entityIDs(named: name)
                guard !ids.isEmpty else {
                    throw HistoryError(
                        .noSuchEntity, "no entity is or was called \(name): check the name, or track the table first")
                }
                found.formUnion(ids)
            }
            entityIDs = found
        }
        let operations = request.operations.map { operations in
            operations.reduce(into: RecordFormat.Operations()) { $0.insert(RecordFormat.Operations($1)) }
        }
        return ChangeFilter(
            entityIDs: entityIDs, operations: operations, objects: request.objects,
            changedColumns: request.changedColumns)
    }
}

extension RecordFormat.Operations {
    init(_ operation: HistoryChange.Operation) {
        self =
            switch operation {
            case .insert: .insert
            case .update: .update
            case .delete: .delete
            }
    }
}
