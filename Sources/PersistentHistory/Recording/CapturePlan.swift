internal import Glibc
internal import TidingsSQLite

/// How to read the rows of one tracked table inside the preupdate hook, worked out beforehand.
final class CapturePlan {
    /// How to read one recorded column.
    struct Column {
        /// The hook's numbers for the column's old value, its new one in an insert, and its new one in an update.
        var old: Int32
        var inserted: Int32
        var updated: Int32
        /// Integers are reals here: SQLite stores whole reals as integers and reports them so.
        var isReal: Bool
        var isKey: Bool
        var isRedacted: Bool
        /// What the column holds in rows older than itself. Its bytes belong to the plan.
        var defaultValue: BorrowedValue
    }

    let layout: HistoryLayout
    /// The table's name, NUL-terminated, for comparison with the hook's. Owned.
    let name: UnsafeMutablePointer<CChar>
    /// Owned; as many as the layout has columns, like the two scratch rows.
    let columns: UnsafeMutableBufferPointer<Column>
    let oldRow: UnsafeMutableBufferPointer<BorrowedValue>
    let newRow: UnsafeMutableBufferPointer<BorrowedValue>
    let keyColumns: [Int]
    let tombstoneColumns: [Int]
    let recordsFullImage: Bool
    private var ownedDefaults: [UnsafeMutableRawBufferPointer] = []

    init(layout: HistoryLayout, table: TableDescription, defaults: [String: SQLiteValue]) throws {
        let indexing = try PreupdateIndexing.current.get()
        self.layout = layout
        name = strdup(table.name)
        keyColumns = layout.keyColumns
        tombstoneColumns = layout.tombstoneColumns
        recordsFullImage = layout.definition.options.rowImage == .full
        let count = layout.columnNames.count
        columns = .allocate(capacity: count)
        oldRow = .allocate(capacity: count)
        newRow = .allocate(capacity: count)
        oldRow.initialize(repeating: BorrowedValue(storageClass: 5))
        newRow.initialize(repeating: BorrowedValue(storageClass: 5))
        let declared = Dictionary(
            table.columns.enumerated().map { ($1.name, $0) }, uniquingKeysWith: { first, _ in first })
        for index in 0..<count {
            let name = layout.columnNames[index]
            // The definition was made from this very table.
            let position = declared[name] ?? 0
            let storage =
                table.columns[..<position].count { !$0.isVirtual }
                + (table.columns[position].isVirtual ? table.columns.count : 0)
            func number(_ order: PreupdateIndexing.Order) -> Int32 { Int32(order == .storage ? storage : position) }
            columns.initializeElement(
                at: index,
                to: Column(
                    old: number(table.isKeyed ? indexing.keyedTable : indexing.rowidTable),
                    inserted: number(table.isKeyed ? indexing.keyedTable : indexing.rowidTable),
                    updated: number(table.isKeyed ? indexing.keyedTableUpdate : indexing.rowidTable),
                    isReal: table.columns[position].isReal,
                    isKey: layout.definition.columns[index].keyPosition > 0,
                    isRedacted: layout.isRedacted[index],
                    defaultValue: BorrowedValue(storageClass: 5)))
            if let value = defaults[name] { columns[index].defaultValue = own(value) }
        }
    }

    deinit {
        free(name)
        columns.deallocate()
        oldRow.deallocate()
        newRow.deallocate()
        for bytes in ownedDefaults { bytes.deallocate() }
    }

    private func own(_ value: SQLiteValue) -> BorrowedValue {
        func copy(_ bytes: [UInt8], _ storageClass: Int32) -> BorrowedValue {
            let owned = UnsafeMutableRawBufferPointer.allocate(byteCount: max(bytes.count, 1), alignment: 1)
            owned.copyBytes(from: bytes)
            ownedDefaults.append(owned)
            return BorrowedValue(
                storageClass: storageClass, bytes: UnsafeRawPointer(owned.baseAddress), count: bytes.count)
        }
        return switch value {
        case .null: BorrowedValue(storageClass: 5)
        case .integer(let number): BorrowedValue(storageClass: 1, bits: number)
        case .real(let number): BorrowedValue(storageClass: 2, bits: Int64(bitPattern: number.bitPattern))
        case .text(let text): copy(Array(text.utf8), 3)
        case .malformedText(let bytes): copy(bytes, 3)
        case .blob(let bytes): copy(bytes, 4)
        }
    }

    /// What rows hold in a column that is younger than they are: each default expression, with the column's affinity.
    static func defaults(of table: TableDescription) throws -> [String: SQLiteValue] {
        let relevant = table.columns.filter { $0.keyPosition == 0 && !$0.isGenerated && $0.defaultExpression != nil }
        guard !relevant.isEmpty else { return [:] }
        let scratch = try Database(path: ":memory:", options: OpenOptions(access: .create, usesWriteAheadLog: false))
        var values: [String: SQLiteValue] = [:]
        for column in relevant {
            guard let expression = column.defaultExpression else { continue }
            values[column.name] = value(of: expression, column.affinity, scratch)
        }
        return values
    }

    /// Evaluates a default as it stands, and in parentheses, which the schema does not keep. What is no constant cannot
    /// have been added to rows that were there: it is of no account.
    private static func value(of expression: String, _ affinity: Affinity, _ scratch: Database) -> SQLiteValue {
        for form in [expression, "(\(expression)\n)"] {
            guard
                (try? scratch.execute(
                    "DROP TABLE IF EXISTS d; CREATE TABLE d(c \(affinity.rawValue) DEFAULT \(form)\n, x)")) != nil,
                (try? scratch.execute("INSERT INTO d(x) VALUES (1)")) != nil,
                let value = try? scratch.first("SELECT c FROM d", as: SQLiteValue.self)
            else { continue }
            return value
        }
        return .null
    }

    /// The old value of a column as a reader of the table would have seen it.
    @inline(__always)
    func old(_ column: Column, _ change: borrowing PreupdateChange) -> BorrowedValue {
        let value = change.old(at: column.old)
        return Self.settled(value.isAbsent ? column.defaultValue : value, column)
    }

    /// Gives a value the storage class in which the table returns it.
    @inline(__always)
    static func settled(_ value: BorrowedValue, _ column: Column) -> BorrowedValue {
        guard column.isReal, value.storageClass == 1 else { return value }
        var real = value
        real.storageClass = 2
        real.bits = Int64(bitPattern: Double(value.bits).bitPattern)
        return real
    }
}

extension BorrowedValue {
    /// Equal as stored: the storage class and every bit.
    @inline(__always)
    func isIdentical(to other: BorrowedValue) -> Bool {
        guard storageClass == other.storageClass, bits == other.bits, count == other.count else { return false }
        guard count > 0, let bytes, let otherBytes = other.bytes else { return true }
        return memcmp(bytes, otherBytes, count) == 0
    }
}
