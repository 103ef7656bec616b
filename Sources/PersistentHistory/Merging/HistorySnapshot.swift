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

    /// The rows of a table, at most `pageSize` in memory at once, in order of the primary key.
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
            var last: [SQLiteValue]?
            var isAtEnd = false

            init(rows: Rows) { self.rows = rows }

            /// The next page; nil at the end.
            public mutating func next() async throws -> [HistoryValues]? {
                guard !isAtEnd else { return nil }
                let page = try await rows.reader.page(of: rows.entity, after: last, limit: rows.pageSize)
                isAtEnd = page.count < rows.pageSize
                guard let row = page.last else { return nil }
                last = rows.entity.keyColumns.map { row[$0] ?? .null }
                return page
            }
        }
    }
}

extension HistoryStore {
    /// Lends a snapshot of the tracked tables to a closure: all rows are of one moment, that of the snapshot's token.
    ///
    /// - Parameter entities: the tables; nil is all that are tracked. Ones that are not tracked now are left out.
    public func withSnapshot<R: Sendable>(
        of entities: Set<String>? = nil, _ body: @Sendable (HistorySnapshot) async throws -> R
    ) async throws -> R {
        let reader = try SnapshotReader(path: path)
        do {
            let snapshot = try await reader.begin(entities)
            let result = try await body(snapshot)
            await reader.close()
            return result
        } catch {
            await reader.close()
            throw error
        }
    }
}

/// The connection of a snapshot, on a thread of its own: its one read transaction lasts as long as it is open.
actor SnapshotReader {
    private let executor: ThreadExecutor
    private let path: String
    private var database: Database?

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(path: String) throws(HistoryError) {
        self.path = path
        executor = try HistoryError.threadStarted("history-snapshot", for: path)
    }

    func begin(_ names: Set<String>?) throws -> HistorySnapshot {
        do {
            let database = try Database(path: path, options: OpenOptions(access: .readOnly))
            self.database = database
            try database.execute("BEGIN")
            let state = try StoreState.read(database)
            let layouts = try LayoutStore.readCurrent(database).sorted { $0.entity < $1.entity }
            let entities = layouts.filter { names?.contains($0.entity) ?? true }.map { layout in
                let columns = layout.definition.columns.enumerated().filter { !layout.isRedacted[$0.offset] }
                return HistorySnapshot.Entity(
                    name: layout.entity, columns: columns.map(\.element.name), types: columns.map(\.element.type),
                    keyColumns: layout.keyNames)
            }
            return HistorySnapshot(
                token: try state.head(database), entities: entities, isWhole: names == nil, reader: self)
        } catch let error as SQLiteError {
            throw HistoryError(error, while: "reading a snapshot", path: path)
        }
    }

    func close() {
        database?.close()
        database = nil
    }

    /// The rows behind a key, in the key's order. A NULL in the key sorts first, as SQLite does.
    func page(of entity: HistorySnapshot.Entity, after key: [SQLiteValue]?, limit: Int) throws -> [HistoryValues] {
        guard let database else {
            throw HistoryError(
                .closed, "\(path): the snapshot is closed: read it inside the closure that it is lent to")
        }
        do {
            let query = SnapshotQuery(entity, after: key, limit: limit)
            return try database.withStatement(query.sql) { statement in
                for (index, value) in query.values.enumerated() { try value.bind(to: statement, at: index + 1) }
                var rows: [HistoryValues] = []
                try statement.forEachRow { row in
                    rows.append(
                        HistoryValues(
                            columns: entity.columns, values: entity.columns.indices.map { row.value(at: $0) }))
                }
                return rows
            }
        } catch let error as SQLiteError {
            throw HistoryError(error, while: "reading a snapshot", path: path)
        }
    }
}

/// The SQL of one page of a table.
struct SnapshotQuery {
    let sql: String
    let values: [SQLiteValue]

    init(_ entity: HistorySnapshot.Entity, after key: [SQLiteValue]?, limit: Int) {
        let names = entity.keyColumns.map(Self.quoted)
        var values: [SQLiteValue] = []
        var tests: [String] = []
        // (a, b) > (x, y) as a > x OR (a = x AND b > y), where NULL comes before everything.
        for position in names.indices {
            guard let key else { break }
            var terms: [String] = []
            for earlier in 0..<position {
                terms.append("\(names[earlier]) IS ?")
                values.append(key[earlier])
            }
            if case .null = key[position] {
                terms.append("\(names[position]) IS NOT NULL")
            } else {
                terms.append("\(names[position]) > ?")
                values.append(key[position])
            }
            tests.append("(\(terms.joined(separator: " AND ")))")
        }
        let condition = tests.isEmpty ? "" : " WHERE \(tests.joined(separator: " OR "))"
        let columns = entity.columns.map(Self.quoted).joined(separator: ", ")
        sql = """
            SELECT \(columns) FROM main.\(Self.quoted(entity.name))\(condition) \
            ORDER BY \(names.joined(separator: ", ")) LIMIT \(limit)
            """
        self.values = values
    }

    static func quoted(_ name: String) -> String {
        "\"" + name.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\""
    }
}
