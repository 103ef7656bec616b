internal import PersistentHistory
internal import TidingsSQLite

/// A table of a projection: as much of a tracked table as history keeps.
struct ProjectedTable: Sendable, Hashable {
    struct Column: Sendable, Hashable {
        let name: String
        /// As it is written in the projection.
        let type: String
        let defaultExpression: String?
    }

    let name: String
    let columns: [Column]
    /// The primary key, in its order.
    let key: [String]
    /// True where the key is the rowid by another name.
    let isRowIDAlias: Bool

    /// The table that a layout records. Redacted columns have no values, and so are left out.
    init(_ layout: HistoryLayout) {
        let columns = layout.definition.columns.enumerated().filter { !layout.isRedacted[$0.offset] }.map(\.element)
        self.init(
            name: layout.entity, names: columns.map(\.name), types: columns.map(\.type),
            defaults: columns.map(\.defaultExpression), key: layout.keyNames, isKeyed: layout.definition.isKeyed)
    }

    /// The table that a snapshot holds.
    init(_ entity: HistorySnapshot.Entity) {
        self.init(
            name: entity.name, names: entity.columns, types: entity.types,
            defaults: entity.columns.map { _ in nil }, key: entity.keyColumns, isKeyed: entity.isKeyed)
    }

    private init(
        name: String, names: [String], types: [String], defaults: [String?], key: [String], isKeyed: Bool
    ) {
        self.name = name
        self.key = key
        var isAlias = false
        columns = names.indices.map { index in
            var type = Self.safe(types[index])
            if key == [names[index]], type.uppercased() == "INTEGER" {
                // In a table WITHOUT ROWID such a column may hold anything; here it would be the rowid, which may not.
                if isKeyed { type = "INT" } else { isAlias = true }
            }
            return Column(name: names[index], type: type, defaultExpression: defaults[index])
        }
        isRowIDAlias = isAlias
    }

    /// A declared type as it can be written again. What is not plain is left out: a column without a type takes every
    /// value as it is. So does ANY, but only in a STRICT table; elsewhere it would turn text into numbers.
    private static func safe(_ type: String) -> String {
        let plain = type.utf8.allSatisfy { byte in
            switch byte {
            case 0x41...0x5A, 0x61...0x7A, 0x30...0x39, 0x5F, 0x20, 0x28, 0x29, 0x2C: true
            default: false
            }
        }
        let words = type.uppercased().split { " (),".contains($0) }.map(String.init)
        return plain && words.allSatisfy { !unsafeWords.contains($0) } ? type : ""
    }

    /// What begins a constraint where it stands unquoted.
    private static let unsafeWords: Set<String> = [
        "ANY", "AS", "CHECK", "COLLATE", "CONSTRAINT", "DEFAULT", "GENERATED", "NOT", "NULL", "PRIMARY", "REFERENCES",
        "UNIQUE",
    ]

    static func quoted(_ name: String) -> String { TableInspector.quoted(name) }
    var quotedName: String { Self.quoted(name) }

    /// The name of the rowid that no column has taken; nil where all are taken.
    var rowIDName: String? {
        ["rowid", "_rowid_", "oid"].first { name in
            !columns.contains { TableInspector.isSameName($0.name, name) }
        }
    }

    /// Creates the table: neither defaults, constraints nor collations, since rows come as they were found to be right.
    var createSQL: String {
        let definitions = columns.map { column in
            let suffix = isRowIDAlias && key == [column.name] ? " PRIMARY KEY" : ""
            return "\(Self.quoted(column.name)) \(column.type)\(suffix)"
        }
        let tail = isRowIDAlias ? "" : ", PRIMARY KEY (\(key.map(Self.quoted).joined(separator: ", ")))"
        return "CREATE TABLE \(quotedName)(\(definitions.joined(separator: ", "))\(tail))"
    }

    /// Puts a row in its place, whatever stands there.
    func insertSQL(_ names: [String]) -> String {
        let marks = names.map { _ in "?" }.joined(separator: ", ")
        return "INSERT OR REPLACE INTO \(quotedName)(\(list(names))) VALUES (\(marks))"
    }

    /// Changes columns of the row with a key.
    func updateSQL(_ names: [String], place: String) -> String {
        let set = names.map { "\(Self.quoted($0)) = ?" }.joined(separator: ", ")
        return "UPDATE OR REPLACE \(quotedName) SET \(set) WHERE \(place)"
    }

    /// Takes out the row with a key.
    func deleteSQL(place: String) -> String { "DELETE FROM \(quotedName) WHERE \(place)" }

    /// The condition for a row's key.
    var keyCondition: String { key.map { "\(Self.quoted($0)) = ?" }.joined(separator: " AND ") }

    /// The condition for one of the rows that hold just these values. Rows with a NULL in the key are told apart by all
    /// that they hold; such that are alike altogether are interchangeable.
    func rowCondition(_ names: [String]) -> String {
        let exact = names.map { "\(Self.quoted($0)) IS ? AND typeof(\(Self.quoted($0))) = typeof(?)" }
        let condition = exact.joined(separator: " AND ")
        guard let rowIDName else { return condition }
        return "\(rowIDName) = (SELECT \(rowIDName) FROM \(quotedName) WHERE \(condition) LIMIT 1)"
    }

    func list(_ names: [String]) -> String { names.map(Self.quoted).joined(separator: ", ") }
}
