import FoundationEssentials

/// The JSON files of Debian's `iso-codes` package as tables: countries, languages, currencies, scripts and their kin.
struct DemoData: Sendable {
    /// One file, one table.
    struct Table: Sendable {
        let name: String
        /// The name of the file, and of the list in it.
        let source: String
        let key: String
        /// The process that imports it.
        let author: String
        let columns: [String]
        /// A value for each column; nil where the record lacks it.
        let records: [[String?]]
    }

    let tables: [Table]

    /// Where Debian puts the files.
    static let directory = "/usr/share/iso-codes/json"
    /// The three who import.
    static let authors = ["places", "languages", "codes"]

    private static let sources = [
        ("country", "3166-1", "alpha_3", "places"), ("subdivision", "3166-2", "code", "places"),
        ("former_country", "3166-3", "alpha_4", "places"), ("language", "639-3", "alpha_3", "languages"),
        ("language_family", "639-5", "alpha_3", "languages"), ("bibliographic_language", "639-2", "alpha_3", "codes"),
        ("currency", "4217", "alpha_3", "codes"), ("script", "15924", "alpha_4", "codes"),
    ]

    /// Reads the files.
    static func read(from directory: String) throws -> DemoData {
        DemoData(tables: try sources.map { try table($0.0, source: $0.1, key: $0.2, author: $0.3, in: directory) })
    }

    private static func table(
        _ name: String, source: String, key: String, author: String, in directory: String
    ) throws -> Table {
        let path = "\(directory)/iso_\(source).json"
        guard let data = FileManager.default.contents(atPath: path) else {
            throw CommandError("\(path) cannot be read: as root: apt-get install -y --no-install-recommends iso-codes")
        }
        guard let lists = try? JSONDecoder().decode([String: [[String: String]]].self, from: data),
            let list = lists[source]
        else { throw CommandError("\(path) is not a list '\(source)' of records of text: reinstall iso-codes") }
        let columns = Set(list.flatMap(\.keys)).sorted()
        return Table(
            name: name, source: source, key: key, author: author, columns: columns,
            records: list.map { record in columns.map { record[$0] } })
    }

    /// The tables' definitions. `search_name` is filled in by the second pass of an import.
    var schema: String {
        tables.map { table in
            let columns = table.columns.map { "\($0) TEXT\($0 == table.key ? " PRIMARY KEY NOT NULL" : "")" }
            return "CREATE TABLE \(table.name)(\((columns + ["search_name TEXT"]).joined(separator: ", ")));"
        }.joined(separator: "\n")
    }

    /// How many records there are.
    var recordCount: Int { tables.map(\.records.count).reduce(0, +) }

    /// How many transactions all imports together commit.
    var transactionCount: Int { Self.authors.map { DemoImport(self, author: $0).transactions.count }.reduce(0, +) }
}

/// What one author does with its tables: inserts records, gives them a name to search by, and deletes what is no more.
struct DemoImport: Sendable {
    /// One transaction: SQL with the values of each row that it is run for.
    struct Transaction: Sendable {
        let context: String
        let sql: String
        let rows: [[String?]]
    }

    let transactions: [Transaction]

    init(_ data: DemoData, author: String) {
        let tables = data.tables.filter { $0.author == author }
        transactions = tables.flatMap(Self.inserts) + tables.flatMap(Self.updates) + tables.compactMap(Self.deletes)
    }

    private static func inserts(_ table: DemoData.Table) -> [Transaction] {
        let marks = table.columns.map { _ in "?" }.joined(separator: ", ")
        let sql = "INSERT INTO \(table.name)(\(table.columns.joined(separator: ", "))) VALUES (\(marks))"
        return pieces(table.records, of: 2).map { Transaction(context: "import", sql: sql, rows: $0) }
    }

    private static func updates(_ table: DemoData.Table) -> [Transaction] {
        guard let key = table.columns.firstIndex(of: table.key), let name = table.columns.firstIndex(of: "name") else {
            return []
        }
        let sql = "UPDATE \(table.name) SET search_name = ? WHERE \(table.key) = ?"
        let rows = table.records.map { [$0[name]?.lowercased(), $0[key]] }
        return pieces(rows, of: 3).map { Transaction(context: "index", sql: sql, rows: $0) }
    }

    /// One transaction that deletes many rows: what was withdrawn, and languages that nobody speaks any more.
    private static func deletes(_ table: DemoData.Table) -> Transaction? {
        switch table.name {
        case "former_country": Transaction(context: "tidy", sql: "DELETE FROM former_country", rows: [[]])
        case "language": Transaction(context: "tidy", sql: "DELETE FROM language WHERE type = 'E'", rows: [[]])
        default: nil
        }
    }

    private static func pieces(_ rows: [[String?]], of count: Int) -> [[[String?]]] {
        stride(from: 0, to: rows.count, by: count).map { Array(rows[$0..<min($0 + count, rows.count)]) }
    }
}
