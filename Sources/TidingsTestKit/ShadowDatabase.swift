public import PersistentHistory
internal import TidingsSQLite

/// An in-memory database that is kept in step with a store by history alone: the proof that history is exact.
///
/// ```swift
/// let shadow = try ShadowDatabase(schema: schema)
/// for try await transaction in store.history() { try await shadow.apply(transaction) }
/// let differences = try await shadow.differences(from: store, tables: ["article"])
/// ```
public actor ShadowDatabase {
    private let connection: SQLiteConnection

    private init(_ connection: SQLiteConnection) { self.connection = connection }

    /// Makes a shadow with the tables that `schema` creates; foreign keys are not enforced and nothing cascades.
    public static func open(schema: String) async throws -> ShadowDatabase {
        let options = OpenOptions(access: .create, usesWriteAheadLog: false, enforcesForeignKeys: false)
        let connection = try await SQLiteConnection.open(":memory:", options: options)
        try await connection.run { db in try db.execute(schema) }
        return ShadowDatabase(connection)
    }

    /// Runs DDL that the store has run.
    public func execute(_ sql: String) async throws {
        try await connection.run { db in try db.execute(sql) }
    }

    /// Applies a transaction's changes one by one.
    ///
    /// - Throws: ``ReplayError`` where a change does not find exactly one row to change.
    public func apply(_ transaction: HistoryTransaction) async throws {
        for try await change in transaction.changes {
            let decoded = change.decoded()
            try await connection.run { db in
                do {
                    try Self.apply(decoded, to: db)
                } catch let error as SQLiteError {
                    throw ReplayError(
                        description:
                            "transaction \(transaction.token.sequence): \(decoded.operation) of \(decoded.entity): \(error)"
                    )
                }
            }
        }
    }

    private static func apply(_ change: DecodedChange, to db: Database) throws {
        let table = quoted(change.entity)
        switch change.operation {
        case .insert:
            let values = change.after ?? [:]
            let columns = values.columns.map(quoted).joined(separator: ", ")
            let marks = values.map { _ in "?" }.joined(separator: ", ")
            try run("INSERT INTO \(table)(\(columns)) VALUES (\(marks))", values.values, change, db)
        case .update:
            let values = change.after ?? [:]
            let set = values.columns.map { "\(quoted($0)) = ?" }.joined(separator: ", ")
            let place = place(of: change)
            try run("UPDATE \(table) SET \(set) WHERE \(place.sql)", values.values + place.values, change, db)
        case .delete:
            let place = place(of: change)
            try run("DELETE FROM \(table) WHERE \(place.sql)", place.values, change, db)
        }
    }

    /// The row that a change is about. Where the key holds a NULL several rows may have it: then the whole row, which
    /// such a change records, tells them apart, and rows that are alike altogether are interchangeable.
    private static func place(of change: DecodedChange) -> (sql: String, values: [SQLiteValue]) {
        func conditions(_ values: HistoryValues) -> String {
            values.columns.map { "\(quoted($0)) IS ?" }.joined(separator: " AND ")
        }
        guard change.key.values.contains(.null), let before = change.before else {
            return (conditions(change.key), change.key.values)
        }
        let table = quoted(change.entity)
        // IS alone would take 1 for 1.0.
        let exact = before.columns.map { "\(quoted($0)) IS ? AND typeof(\(quoted($0))) = typeof(?)" }
        return (
            "rowid = (SELECT rowid FROM \(table) WHERE \(exact.joined(separator: " AND ")) LIMIT 1)",
            before.values.flatMap { [$0, $0] }
        )
    }

    private static func run(_ sql: String, _ values: [SQLiteValue], _ change: DecodedChange, _ db: Database) throws {
        try db.withStatement(sql) { statement in
            for (index, value) in values.enumerated() { try value.bind(to: statement, at: index + 1) }
            while try statement.step() {}
        }
        guard db.changes == 1 else {
            throw ReplayError(
                description: "\(change.operation) of \(change.entity) changed \(db.changes) rows: \(change)")
        }
    }

    /// Compares tables row by row, every column by storage class and bits. Empty where they are equal.
    public func differences(from store: HistoryStore, tables: [String]) async throws -> [String] {
        let expected = try await store.read { db in try Self.contents(tables, db) }
        let found = try await connection.run { db in try Self.contents(tables, db) }
        var differences: [String] = []
        for (index, table) in tables.enumerated() where expected[index] != found[index] {
            let missing = Self.surplus(of: expected[index], over: found[index])
            let extra = Self.surplus(of: found[index], over: expected[index])
            differences.append("\(table): the store has \(missing), the shadow \(extra)")
        }
        return differences
    }

    /// The rows of one table that the other lacks, as often as it lacks them.
    private static func surplus(of rows: [[SQLiteValue]], over others: [[SQLiteValue]]) -> [[SQLiteValue]] {
        var counts = Dictionary(others.map { ($0, 1) }, uniquingKeysWith: +)
        return rows.filter { row in
            guard let count = counts[row], count > 0 else { return true }
            counts[row] = count - 1
            return false
        }
    }

    private static func contents(_ tables: [String], _ db: Database) throws -> [[[SQLiteValue]]] {
        try tables.map { table in
            try db.rows("SELECT * FROM \(quoted(table))").sorted { "\($0)" < "\($1)" }
        }
    }

    private static func quoted(_ name: String) -> String {
        "\"" + name.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\""
    }
}

/// A change that could not be applied to a shadow.
public struct ReplayError: Error, CustomStringConvertible, Sendable {
    /// What did not fit.
    public let description: String
}
