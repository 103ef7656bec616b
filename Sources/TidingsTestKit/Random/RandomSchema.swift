/// A table of a random schema, as far as random statements have to know it.
package struct RandomTable: Sendable {
    package var name: String
    package var columns: [String]
    package let keyColumns: [String]
    package let hasRowID: Bool
    package var blobColumn: String?
    /// A column added behind a virtual one is one of the arrangements that are refused.
    var hasVirtualColumn = false
}

/// A schema with everything that makes capture hard: kinds of keys, affinities, unique indexes, generated columns,
/// cascades, user triggers.
package struct RandomSchema: Sendable {
    package private(set) var tables: [RandomTable] = []
    /// Creates the tables; goes to the shadow too.
    package private(set) var tableSQL = ""
    /// Creates what the shadow must not have: triggers.
    package private(set) var triggerSQL = ""

    package init(using random: inout SeededGenerator) {
        let count = Int.random(in: 2...4, using: &random)
        for index in 0..<count { addTable("t\(index)", using: &random) }
        addFamily(using: &random)
        for _ in 0..<Int.random(in: 0...3, using: &random) { addTrigger(using: &random) }
    }

    private static let types = ["INTEGER", "REAL", "TEXT", "BLOB", "NUMERIC", "", "VARCHAR(20)", "DOUBLE"]

    private mutating func addTable(_ name: String, using random: inout SeededGenerator) {
        var definitions: [String] = []
        var columns: [String] = []
        var keys: [String] = []
        var suffix = ""
        let shape = Int.random(in: 0..<6, using: &random)
        switch shape {
        case 0, 1:
            definitions.append("id INTEGER PRIMARY KEY")
            keys = ["id"]
        case 2:
            // A key of a rowid table that may be NULL, even in many rows.
            definitions.append("id \(random.pick(["TEXT", "", "BLOB"])) PRIMARY KEY")
            keys = ["id"]
        case 3:
            definitions.append("id TEXT \(random.pick(["", "COLLATE NOCASE "]))PRIMARY KEY")
            keys = ["id"]
            suffix = " WITHOUT ROWID"
        case 4:
            let type = random.pick(Self.types)
            definitions += ["a \(type)", "b INTEGER"]
            suffix = random.oneIn(2) ? " WITHOUT ROWID" : ""
            // A table without rowid that has a REAL column where its key's index has another is refused.
            let isRefused = suffix != "" && ["REAL", "DOUBLE"].contains(type)
            keys = random.oneIn(2) && !isRefused ? ["b", "a"] : ["a", "b"]
        default:
            definitions.append("id INT PRIMARY KEY")
            keys = ["id"]
        }
        columns = shape == 4 ? ["a", "b"] : ["id"]
        for number in 0..<Int.random(in: 1...4, using: &random) {
            let column = "c\(number)"
            columns.append(column)
            definitions.append("\(column) \(Self.column(number, using: &random))")
        }
        if random.oneIn(3) { definitions.append("g1 AS (coalesce(c0, 1) || 'v')") }
        if random.oneIn(3) { definitions.append("g2 TEXT AS (c0 || 's') STORED") }
        if shape == 4 { definitions.append("PRIMARY KEY (\(keys.joined(separator: ", ")))") }
        if columns.contains("c1"), random.oneIn(3) { definitions.append("UNIQUE (c0, c1)") }
        tableSQL += "CREATE TABLE \(name)(\(definitions.joined(separator: ", ")))\(suffix);\n"
        // SQLite does not recompute a stored generated column when a blob that it depends on is written in place.
        let isSource = definitions.contains { $0.contains("STORED") }
        let table = RandomTable(
            name: name, columns: columns, keyColumns: keys, hasRowID: !suffix.contains("WITHOUT"),
            blobColumn: isSource ? nil : "c0", hasVirtualColumn: definitions.contains { $0.hasPrefix("g1") })
        tables.append(table)
    }

    private static func column(_ number: Int, using random: inout SeededGenerator) -> String {
        var definition = random.pick(types)
        if random.oneIn(4) { definition += random.pick([" DEFAULT 7", " DEFAULT 'd'", " DEFAULT (1 + 1)"]) }
        if number > 0, random.oneIn(4) { definition += random.pick([" UNIQUE", " COLLATE NOCASE UNIQUE"]) }
        if random.oneIn(6) { definition += " CHECK (typeof(c\(number)) <> 'integer' OR c\(number) < 60)" }
        return definition
    }

    /// A parent with two kinds of children, one of them checked only at the commit.
    private mutating func addFamily(using random: inout SeededGenerator) {
        let action = random.pick(["CASCADE", "SET NULL", "SET DEFAULT"])
        tableSQL += """
            CREATE TABLE parent(id INTEGER PRIMARY KEY, v);
            CREATE TABLE child(id INTEGER PRIMARY KEY, p DEFAULT 1 REFERENCES parent(id) ON DELETE \(action) ON UPDATE CASCADE, v);
            CREATE TABLE late(id INTEGER PRIMARY KEY, p REFERENCES parent(id) DEFERRABLE INITIALLY DEFERRED);

            """
        tables.append(
            RandomTable(name: "parent", columns: ["id", "v"], keyColumns: ["id"], hasRowID: true, blobColumn: "v"))
        tables.append(RandomTable(name: "child", columns: ["id", "p", "v"], keyColumns: ["id"], hasRowID: true))
        tables.append(RandomTable(name: "late", columns: ["id", "p"], keyColumns: ["id"], hasRowID: true))
    }

    private mutating func addTrigger(using random: inout SeededGenerator) {
        let source = random.pick(tables)
        let target = random.pick(tables)
        let event = random.pick(["INSERT", "UPDATE", "DELETE"])
        let time = random.pick(["BEFORE", "AFTER"])
        let row = event == "DELETE" ? "OLD" : "NEW"
        let column = source.columns.last ?? "id"
        let change = random.pick(["INSERT", "UPDATE", "DELETE", "RAISE"])
        let body: String
        switch change {
        case "INSERT": body = "INSERT OR IGNORE INTO \(target.name)(\(target.columns[0])) VALUES (\(row).\(column))"
        case "UPDATE":
            let last = target.columns.last ?? "id"
            body = "UPDATE OR IGNORE \(target.name) SET \(last) = \(row).\(column) WHERE \(target.columns[0]) < 5"
        case "DELETE": body = "DELETE FROM \(target.name) WHERE \(target.columns[0]) = \(row).\(column)"
        default:
            body =
                "SELECT RAISE(\(random.pick(["ABORT, 'no'", "FAIL, 'no'", "ROLLBACK, 'no'", "IGNORE"]))) WHERE \(row).\(column) = 13"
        }
        let number = triggerSQL.count
        triggerSQL += "CREATE TRIGGER trigger\(number) \(time) \(event) ON \(source.name) BEGIN \(body); END;\n"
    }

    /// Adds a column to one of the tables and returns the DDL, which the shadow needs too.
    package mutating func addColumn(using random: inout SeededGenerator) -> String {
        let index = random.pick(tables.indices.filter { !tables[$0].hasVirtualColumn })
        let column = "x\(tables[index].columns.count)"
        tables[index].columns.append(column)
        let definition = random.pick([
            "", " DEFAULT 5", " TEXT NOT NULL DEFAULT 'new'", " REAL DEFAULT 3", " DEFAULT x'00ff'",
        ])
        return "ALTER TABLE \(tables[index].name) ADD COLUMN \(column)\(definition)"
    }
}
