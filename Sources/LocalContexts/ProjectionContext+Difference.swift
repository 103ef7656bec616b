public import PersistentHistory
internal import TidingsSQLite

/// How a projection differs from its store, at one token.
public struct ProjectionDifference: Sendable, Hashable {
    /// The counts of one entity.
    public struct Counts: Sendable, Hashable {
        /// The store's rows.
        public internal(set) var rows = 0
        /// Rows of the store that the projection lacks.
        public internal(set) var missing = 0
        /// Rows of the projection that the store lacks.
        public internal(set) var extra = 0
        /// Rows of which some value differs, by storage class or by bits.
        public internal(set) var different = 0
        /// True where all rows are the same.
        public var isEmpty: Bool { missing == 0 && extra == 0 && different == 0 }
    }

    /// The place in the history that both stand at.
    public let token: HistoryToken
    /// The counts, by entity.
    public internal(set) var entities: [String: Counts] = [:]
    /// True where nothing differs.
    public var isEmpty: Bool { entities.values.allSatisfy(\.isEmpty) }
}

extension ProjectionContext {
    /// Compares a projection with a store row by row, in pages of bounded memory: only rows with a NULL in their primary
    /// key are held all at once.
    ///
    /// Both must stand at the same token: wait until the consumer has caught up, and write nothing meanwhile.
    ///
    /// - Parameters:
    ///   - path: the projection's file.
    ///   - entities: what to compare; nil is every tracked table.
    /// - Throws: ``HistoryError``: `invalidRequest` where the tokens differ.
    public static func difference(
        from store: HistoryStore, path: String, entities: Set<String>? = nil
    ) async throws -> ProjectionDifference {
        let comparison = try ProjectionComparison(path: path)
        do {
            let token = try await comparison.begin()
            let result = try await store.withSnapshot(of: entities) { snapshot in
                guard let token, snapshot.token == token else {
                    throw HistoryError(
                        .invalidRequest,
                        "\(path) stands at \(token?.description ?? "no token"), the store at \(snapshot.token): "
                            + "they can be compared at the same token only, wait until the projection has caught up")
                }
                var difference = ProjectionDifference(token: token)
                for entity in snapshot.entities {
                    difference.entities[entity.name] = try await comparison.compare(entity, in: snapshot)
                }
                return difference
            }
            await comparison.close()
            return result
        } catch {
            await comparison.close()
            throw error
        }
    }
}

/// The projection's side of a comparison: one read transaction on a thread of its own.
private actor ProjectionComparison {
    private let path: String
    private let executor: ThreadExecutor
    private var database: Database?

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(path: String) throws {
        self.path = path
        executor = try HistoryError.threadStarted("projection-diff", for: path)
    }

    func begin() throws -> HistoryToken? {
        let opened = try ProjectionFile.openReadOnly(path)
        database = opened
        return try reporting {
            try opened.execute("BEGIN")
            return try ProjectionFile.token(opened)
        }
    }

    func close() {
        database?.close()
        database = nil
    }

    func compare(
        _ entity: HistorySnapshot.Entity, in snapshot: HistorySnapshot
    ) async throws -> ProjectionDifference.Counts {
        let table = ProjectedTable(entity)
        var comparison = TableComparison(table, columns: entity.columns)
        for try await rows in snapshot.rows(of: entity) {
            try reporting { try comparison.compare(rows, opened()) }
        }
        return try reporting { try comparison.finish(opened()) }
    }

    private func opened() throws(HistoryError) -> Database {
        guard let database else { throw HistoryError(.closed, "\(path): the comparison is over") }
        return database
    }

    private func reporting<R>(_ body: () throws -> R) throws -> R {
        do {
            return try body()
        } catch let error as SQLiteError {
            throw HistoryError(error, while: "comparing the projection", path: path)
        }
    }
}

/// The comparison of one table. Rows are found by their key; what was found is taken from the count of all.
private struct TableComparison {
    private let table: ProjectedTable
    private let columns: [String]
    private var counts = ProjectionDifference.Counts()
    private var found = 0
    /// The store's rows with a NULL in their key, as often as they are there: their key does not tell them apart.
    private var withNull: [[SQLiteValue]: Int] = [:]

    init(_ table: ProjectedTable, columns: [String]) {
        self.table = table
        self.columns = columns
    }

    mutating func compare(_ rows: [HistoryValues], _ database: Database) throws {
        counts.rows += rows.count
        guard try isThere(database) else {
            counts.missing += rows.count
            return
        }
        let sql = "SELECT \(table.list(columns)) FROM \(table.quotedName) WHERE \(table.keyCondition)"
        try database.withStatement(sql) { statement in
            for row in rows {
                let key = table.key.map { row[$0] ?? .null }
                guard !key.contains(.null) else {
                    withNull[row.values, default: 0] += 1
                    continue
                }
                for (index, value) in key.enumerated() { try value.bind(to: statement, at: index + 1) }
                if try statement.step() {
                    found += 1
                    if statement.row.values != row.values { counts.different += 1 }
                } else {
                    counts.missing += 1
                }
                statement.reset()
            }
        }
    }

    mutating func finish(_ database: Database) throws -> ProjectionDifference.Counts {
        guard try isThere(database) else { return counts }
        let isNull = table.key.map { "\(ProjectedTable.quoted($0)) IS NULL" }.joined(separator: " OR ")
        let all = try database.first("SELECT count(*) FROM \(table.quotedName)", as: Int.self) ?? 0
        var nulls = 0
        try database.withStatement("SELECT \(table.list(columns)) FROM \(table.quotedName) WHERE \(isNull)") {
            try $0.forEachRow { row in
                nulls += 1
                let values = row.values
                if let count = withNull[values], count > 0 {
                    withNull[values] = count - 1
                } else {
                    counts.extra += 1
                }
            }
        }
        counts.missing += withNull.values.reduce(0, +)
        counts.extra += all - nulls - found
        return counts
    }

    private func isThere(_ database: Database) throws -> Bool {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ? COLLATE NOCASE"
        guard try database.first(sql, table.name, as: Int.self) == 1 else { return false }
        // A column that is missing would be read as a string of its name.
        let names = try database.query("SELECT name FROM pragma_table_info(?)", table.name) { row in
            try row.get(0, as: String.self)
        }
        return columns.allSatisfy { column in names.contains { TableInspector.isSameName($0, column) } }
    }
}
