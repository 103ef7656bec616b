package import TidingsSQLite

/// Runs random statements, most of which meet some constraint, inside one write transaction.
package struct RandomTransaction: Sendable {
    let tables: [RandomTable]
    var random: SeededGenerator
    /// What was run, for the report of a divergence.
    package private(set) var log: [String] = []
    private var savepoints = 0

    /// Thrown to have the whole transaction rolled back.
    package struct Abandoned: Error {}

    package init(tables: [RandomTable], random: SeededGenerator) {
        self.tables = tables
        self.random = random
    }

    package mutating func run(_ db: Database) throws {
        for _ in 0..<Int.random(in: 1...10, using: &random) {
            if random.oneIn(25) {
                try writeBlob(db)
            } else if random.oneIn(4) {
                try moveSavepoint(db)
            } else {
                try runTolerantly(statement(), db)
            }
        }
        if random.oneIn(8) { throw Abandoned() }
    }

    /// Runs a statement that may fail, as long as it does not end the transaction.
    private mutating func runTolerantly(_ sql: String, _ db: Database) throws {
        log.append(sql)
        do {
            try db.execute(sql)
        } catch {
            log.append("-- \(error.message)")
            guard db.isInTransaction else { throw error }
            guard error.code == .constraint || error.code == .mismatch || error.code == .tooBig else { throw error }
        }
    }

    private mutating func moveSavepoint(_ db: Database) throws {
        switch Int.random(in: 0..<3, using: &random) {
        case 0 where savepoints < 5:
            try runTolerantly("SAVEPOINT s\(savepoints)", db)
            savepoints += 1
        case 1 where savepoints > 0:
            let target = Int.random(in: 0..<savepoints, using: &random)
            try runTolerantly("ROLLBACK TO s\(target)", db)
            savepoints = target + 1
        case 2 where savepoints > 0:
            let target = Int.random(in: 0..<savepoints, using: &random)
            try runTolerantly("RELEASE s\(target)", db)
            savepoints = target
        default: break
        }
    }

    private mutating func writeBlob(_ db: Database) throws {
        let table = random.pick(tables)
        guard table.hasRowID, let column = table.blobColumn else { return }
        let sql =
            "SELECT rowid FROM \(table.name) WHERE typeof(\(column)) IN ('blob', 'text') AND length(\(column)) > 0 LIMIT 1"
        guard let rowID = try db.first(sql, as: Int64.self) else { return }
        log.append("-- blob \(table.name).\(column) of \(rowID)")
        let pieces = Int.random(in: 1...3, using: &random)
        let byte = UInt8.random(in: 65...90, using: &random)
        do {
            try db.withBlob(table: table.name, column: column, rowID: rowID, isWritable: true) { blob in
                for piece in 0..<min(pieces, blob.count) { try blob.write([byte], at: piece) }
            }
        } catch let error as SQLiteError where error.code == .error {
            // A column of an index or a foreign key cannot be opened for writing.
            log.append("-- \(error.message)")
        }
    }

    // MARK: Statements

    private mutating func statement() -> String {
        let table = random.pick(tables)
        switch Int.random(in: 0..<12, using: &random) {
        case 0...3: return insert(table)
        case 4: return "INSERT OR REPLACE INTO \(table.name)(\(list(table))) VALUES (\(values(table)))"
        case 5: return upsert(table)
        case 6, 7: return update(table)
        case 8: return "UPDATE OR REPLACE \(table.name) SET \(assignment(table))\(condition(table))"
        case 9: return random.oneIn(6) ? "DELETE FROM \(table.name)" : "DELETE FROM \(table.name)\(condition(table))"
        case 10: return insertSelect(table)
        default:
            return "UPDATE \(conflict())\(table.name) SET \(table.columns[0]) = \(table.columns[0])\(condition(table))"
        }
    }

    private mutating func conflict() -> String {
        random.pick(["", "OR IGNORE ", "OR FAIL ", "OR ABORT ", "OR REPLACE "])
    }

    private mutating func insert(_ table: RandomTable) -> String {
        let rows = (0..<Int.random(in: 1...4, using: &random)).map { _ in "(\(values(table)))" }.joined(separator: ", ")
        return "INSERT \(conflict())INTO \(table.name)(\(list(table))) VALUES \(rows)"
    }

    private mutating func upsert(_ table: RandomTable) -> String {
        "INSERT INTO \(table.name)(\(list(table))) VALUES (\(values(table))) ON CONFLICT DO UPDATE SET \(assignment(table))"
    }

    private mutating func update(_ table: RandomTable) -> String {
        "UPDATE \(conflict())\(table.name) SET \(assignment(table)), \(assignment(table))\(condition(table))"
    }

    private mutating func insertSelect(_ table: RandomTable) -> String {
        let other = random.pick(tables)
        let columns = table.columns.map { _ in random.pick(other.columns) }.joined(separator: ", ")
        return
            "INSERT \(conflict())INTO \(table.name)(\(list(table))) SELECT \(columns) FROM \(other.name)\(condition(other))"
    }

    private func list(_ table: RandomTable) -> String { table.columns.joined(separator: ", ") }

    private mutating func values(_ table: RandomTable) -> String {
        table.columns.map { _ in value() }.joined(separator: ", ")
    }

    private mutating func assignment(_ table: RandomTable) -> String {
        let column = random.pick(table.columns)
        return random.oneIn(4) ? "\(column) = \(column) + 1" : "\(column) = \(value())"
    }

    private mutating func condition(_ table: RandomTable) -> String {
        let column = random.pick(table.columns)
        return " WHERE \(column) \(random.pick(["<", ">", "=", "IS NOT"])) \(value())"
    }

    private mutating func value() -> String {
        switch Int.random(in: 0..<24, using: &random) {
        case 0...11: String(Int.random(in: 0..<40, using: &random))
        case 12, 13: "NULL"
        case 14: random.pick(["9223372036854775807", "-9223372036854775807 - 1", "4294967296", "-129", "32768"])
        case 15: random.pick(["1.0", "2.5", "-0.0", "9e999", "-9e999", "1e-300", "3.0"])
        case 16...18: "'\(random.pick(["a", "A", "b", "é", "13", "2.0", ""]))'"
        case 19: random.pick(["CAST(x'ff41' AS TEXT)", "'x' || char(0) || 'y'", "CAST(x'' AS TEXT)"])
        case 20, 21: random.pick(["x'00'", "x'0102ff'", "zeroblob(5)", "x''"])
        case 22: "printf('%.\(Int.random(in: 20...600, using: &random))c', 'z')"
        default: String(Int64.random(in: -300...300, using: &random))
        }
    }
}
