import PersistentHistory
import TidingsSQLite
import TidingsTestKit

/// Random transactions over tables of all kinds, with values of all kinds: what messages are made of.
struct RandomRows {
    /// A table that is written to.
    struct Table: Sendable {
        let name: String
        let columns: [String]
        let options: TrackingOptions
    }

    static let schema = """
        CREATE TABLE plain(id INTEGER PRIMARY KEY, a, b TEXT, c REAL);
        CREATE TABLE [composite, "keyed"](x, "ÿ" TEXT, v, PRIMARY KEY("ÿ", x)) WITHOUT ROWID;
        CREATE TABLE loose(k PRIMARY KEY, v);
        CREATE TABLE secret(id INTEGER PRIMARY KEY, name, password, note);
        """
    static let tables = [
        Table(name: "plain", columns: ["id", "a", "b", "c"], options: TrackingOptions()),
        Table(
            name: "composite, \"keyed\"", columns: ["x", "ÿ", "v"], options: TrackingOptions(rowImage: .full)),
        Table(name: "loose", columns: ["k", "v"], options: TrackingOptions()),
        Table(
            name: "secret", columns: ["id", "name", "password", "note"],
            options: TrackingOptions(rowImage: .full, preservedColumns: ["name"], redactedColumns: ["password"])),
    ]

    var random: SeededGenerator

    /// A store with the tables, each tracked in its own way.
    static func makeStore(clock: TestClock = TestClock()) async throws -> TemporaryStore {
        var options = HistoryStore.Options()
        options.clock = clock
        let temporary = try await TemporaryStore(schema: schema, tracking: nil, options: options)
        for table in tables { try await temporary.store.track(.named([table.name]), options: table.options) }
        return temporary
    }

    /// Writes a transaction; false where it changed nothing.
    mutating func write(to store: HistoryStore) async throws -> Bool {
        var statements: [(sql: String, values: [SQLiteValue])] = []
        for _ in 0..<Int.random(in: 1...8, using: &random) { statements.append(statement()) }
        let context = random.pick([nil, "", "import", "é\"\\\u{1}"])
        let planned = statements
        let result = try await store.write(context: context) { db in
            for (sql, values) in planned {
                try db.withStatement(sql) { statement in
                    for (index, value) in values.enumerated() { try value.bind(to: statement, at: index + 1) }
                    do {
                        while try statement.step() {}
                    } catch let error as SQLiteError where error.code == .constraint || error.code == .mismatch {
                        // Another row has the key, or the key must be an integer.
                    }
                }
            }
        }
        return result.token != nil
    }

    private mutating func statement() -> (String, [SQLiteValue]) {
        let table = random.pick(Self.tables)
        let name = quoted(table.name)
        switch Int.random(in: 0..<10, using: &random) {
        case 0..<5:
            let marks = table.columns.map { _ in "?" }.joined(separator: ", ")
            let values = table.columns.enumerated().map { value(isKey: $0.offset == 0) }
            return ("INSERT OR REPLACE INTO \(name) VALUES (\(marks))", values)
        case 5..<8:
            // Keys too.
            let count = Int.random(in: 1...2, using: &random)
            let columns = table.columns.shuffled(using: &random).prefix(count)
            let changes = columns.map { "\(quoted($0)) = ?" }.joined(separator: ", ")
            let values = columns.map { value(isKey: $0 == table.columns[0]) }
            return ("UPDATE OR IGNORE \(name) SET \(changes) WHERE \(quoted(table.columns[0])) = ?", values + [key()])
        default: return ("DELETE FROM \(name) WHERE \(quoted(table.columns[0])) = ?", [key()])
        }
    }

    private func quoted(_ name: String) -> String {
        "\"" + name.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\""
    }

    private mutating func key() -> SQLiteValue { .integer(Int64.random(in: 0..<20, using: &random)) }

    private mutating func value(isKey: Bool) -> SQLiteValue {
        if isKey { return random.oneIn(10) ? random.pick([.null, .integer(.max), .integer(.min)]) : key() }
        switch Int.random(in: 0..<8, using: &random) {
        case 0: return .null
        case 1: return .integer(Int64(truncatingIfNeeded: random.next()))
        case 2: return .integer(Int64.random(in: -300...300, using: &random))
        case 3:
            let real = Double(bitPattern: random.next())
            return real.isNaN ? .null : .real(real)
        case 4: return random.pick([.real(.infinity), .real(-.infinity), .real(-0.0), .real(1), .real(1e300)])
        case 5: return .text(random.pick(["", "a", "é", "e\u{301}", "\"\\/\n\t\0\u{7F}\u{2028}😀", "{\"$blob\":\"\"}"]))
        case 6: return SQLiteValue(textBytes: bytes())
        default: return .blob(bytes())
        }
    }

    private mutating func bytes() -> [UInt8] {
        (0..<Int.random(in: 0...40, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
    }
}
