internal import FoundationEssentials
internal import TidingsSQLite

/// The rows of a store's tracked tables at one token, read page by page inside one read transaction.
///
/// It holds that transaction open, so that the write-ahead log cannot be reset meanwhile: read it to its end, and do not
/// keep it.
public final class HistorySnapshot: Sendable {
    /// A table of the snapshot.
    public struct Entity: Sendable, Hashable {
        /// The table's name.
        public let name: String
        /// The columns that the history records, without redacted ones.
        public let columns: [String]
        /// Their declared types, empty where none was declared.
        public let types: [String]
        /// The primary key, in its order.
        public let keyColumns: [String]
        /// The sequence that the rows stand at, also where the snapshot's token is another one.
        package let sequence: Int64
        /// Whether the table is one WITHOUT ROWID.
        package let isKeyed: Bool
        /// How its rows are paged.
        let paging: SnapshotQuery.Paging
    }

    /// The place in the history from which on a context that was loaded with it is merged into.
    ///
    /// Of a whole snapshot, the place that the rows stand at. Where only some entities are loaded anew, the place that the
    /// context as a whole has reached: the rows may be newer, and the consumer leaves out what they hold already.
    public let token: HistoryToken
    /// The tables, in order of name.
    public let entities: [Entity]
    /// True where it holds every tracked table; false where only some were asked for.
    public let isWhole: Bool
    private let reader: SnapshotReader

    init(token: HistoryToken, entities: [Entity], isWhole: Bool, reader: SnapshotReader) {
        self.token = token
        self.entities = entities
        self.isWhole = isWhole
        self.reader = reader
    }

    /// The same rows, for a context that as a whole stands at another token.
    package func standing(at token: HistoryToken) -> HistorySnapshot {
        HistorySnapshot(token: token, entities: entities, isWhole: isWhole, reader: reader)
    }

    /// The rows of a table, in the order in which the table keeps them: by rowid, or by the primary key where it has none.
    ///
    /// - Parameter pageSize: the most rows of a page. A page ends earlier where its values pass a megabyte.
    public func rows(of entity: Entity, pageSize: Int = 1000) -> Rows {
        Rows(reader: reader, entity: entity, pageSize: max(1, pageSize))
    }

    /// Pages of rows.
    public struct Rows: AsyncSequence, Sendable {
        /// A page of rows, never none.
        public typealias Element = [HistoryValues]
        let reader: SnapshotReader
        let entity: Entity
        let pageSize: Int

        /// A reader from the first row on.
        public func makeAsyncIterator() -> Iterator { Iterator(rows: self) }

        /// Reads the pages one by one.
        public struct Iterator: AsyncIteratorProtocol {
            let rows: Rows
            var position: [SQLiteValue]?
            var isAtEnd = false

            init(rows: Rows) { self.rows = rows }

            /// The next page; nil at the end.
            public mutating func next() async throws -> [HistoryValues]? {
                guard !isAtEnd else { return nil }
                let page = try await rows.reader.page(of: rows.entity, after: position, limit: rows.pageSize)
                position = page.end
                isAtEnd = page.end == nil
                return page.rows.isEmpty ? nil : page.rows
            }
        }
    }
}

extension HistoryStore {
    /// Lends a snapshot of the tracked tables to a closure: all rows are of one moment, that of the snapshot's token.
    ///
    /// - Parameter entities: the tables; nil is all that are tracked. The case of names does not count. Ones that
    ///   are not tracked now are left out.
    /// - Throws: ``HistoryError``, `storeUnavailable` among it where a reader would have to create the files beside the
    ///   store; what `body` throws.
    public func withSnapshot<R: Sendable>(
        of entities: Set<String>? = nil, _ body: @Sendable (HistorySnapshot) async throws -> R
    ) async throws -> R {
        // It sees to it that the file can be read, also one that was only just put in the place of another.
        try await reader.look()
        let snapshots = try SnapshotReader(path: path)
        do {
            let snapshot = try await snapshots.begin(entities, of: storeID)
            let result = try await body(snapshot)
            await snapshots.close()
            return result
        } catch {
            await snapshots.close()
            throw error
        }
    }
}

/// The connection of a snapshot, on a thread of its own: its one read transaction lasts as long as it is open.
actor SnapshotReader {
    private let executor: ThreadExecutor
    private let path: String
    private var database: Database?
    /// The size of values past which a page ends; a row may be larger.
    private static let pageBytes = 1 << 20

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(path: String) throws(HistoryError) {
        self.path = path
        executor = try HistoryError.threadStarted("history-snapshot", for: path)
    }

    func begin(_ names: Set<String>?, of storeID: UUID) throws -> HistorySnapshot {
        do {
            let database = try Database(path: path, options: OpenOptions(access: .readOnly))
            self.database = database
            _ = try HistorySchema.storeID(database, expected: storeID)
            try database.execute("BEGIN")
            let state = try StoreState.read(database)
            let head = try state.head(database)
            let layouts = try LayoutStore.readCurrent(database).sorted { $0.entity < $1.entity }
            let isWanted = { (entity: String) in
                names?.contains { TableInspector.isSameName($0, entity) } ?? true
            }
            let entities = try layouts.filter { isWanted($0.entity) }.map { layout in
                let columns = layout.definition.columns.enumerated().filter { !layout.isRedacted[$0.offset] }
                return HistorySnapshot.Entity(
                    name: layout.entity, columns: columns.map(\.element.name), types: columns.map(\.element.type),
                    keyColumns: layout.keyNames, sequence: head.sequence, isKeyed: layout.definition.isKeyed,
                    paging: try SnapshotQuery.paging(of: layout, database))
            }
            return HistorySnapshot(
                token: head, entities: entities, isWhole: names == nil, reader: self)
        } catch let error as SQLiteError {
            throw HistoryError(error, while: "reading a snapshot", path: path)
        }
    }

    func close() {
        database?.close()
        database = nil
    }

    /// A page of rows, and where the next one begins; nil at the end.
    struct Page: Sendable {
        var rows: [HistoryValues] = []
        var end: [SQLiteValue]?
    }

    /// The rows behind a position.
    func page(of entity: HistorySnapshot.Entity, after position: [SQLiteValue]?, limit: Int) throws -> Page {
        guard let database else {
            throw HistoryError(
                .closed, "\(path): the snapshot is closed: read it inside the closure that it is lent to")
        }
        do {
            let query = SnapshotQuery(entity, after: position)
            return try database.withStatement(query.sql) { statement in
                for (index, value) in query.values.enumerated() { try value.bind(to: statement, at: index + 1) }
                return try Self.page(of: entity, query, statement, limit)
            }
        } catch let error as SQLiteError {
            throw HistoryError(error, while: "reading a snapshot", path: path)
        }
    }

    private static func page(
        of entity: HistorySnapshot.Entity, _ query: SnapshotQuery, _ statement: Statement, _ limit: Int
    ) throws -> Page {
        var page = Page()
        var size = 0
        while try statement.step() {
            let row = statement.row
            let values = (0..<entity.columns.count).map { row.value(at: $0) }
            page.rows.append(HistoryValues(columns: entity.columns, values: values))
            for value in values { size += value.size }
            guard page.rows.count < limit, size < pageBytes else {
                page.end = query.end(of: page.rows, row)
                break
            }
        }
        return page
    }
}

extension SQLiteValue {
    /// About how many bytes of memory the value takes.
    fileprivate var size: Int {
        switch self {
        case .null, .integer, .real: MemoryLayout<SQLiteValue>.size
        case .text(let text): MemoryLayout<SQLiteValue>.size + text.utf8.count
        case .malformedText(let bytes), .blob(let bytes): MemoryLayout<SQLiteValue>.size + bytes.count
        }
    }
}
