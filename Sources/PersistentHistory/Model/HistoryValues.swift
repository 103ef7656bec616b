public import TidingsSQLite

/// Named values of one row, in the order of the table's columns.
public struct HistoryValues: Sendable, Hashable, RandomAccessCollection {
    /// A column's name and value.
    public typealias Element = (column: String, value: SQLiteValue)

    /// The names of the columns.
    public let columns: [String]
    /// Their values, in the same order.
    public let values: [SQLiteValue]

    /// Makes values of pairs.
    public init(_ pairs: [(column: String, value: SQLiteValue)]) {
        self.init(columns: pairs.map(\.column), values: pairs.map(\.value))
    }

    /// Makes values of names and as many values.
    package init(columns: [String], values: [SQLiteValue]) {
        self.columns = columns
        self.values = values
    }

    /// The value of a column; nil where it is not among these. NULL is a value.
    public subscript(column: String) -> SQLiteValue? {
        columns.firstIndex(of: column).map { values[$0] }
    }

    /// The pair at a position.
    public subscript(position: Int) -> Element { (columns[position], values[position]) }
    /// 0.
    public var startIndex: Int { 0 }
    /// The number of columns.
    public var endIndex: Int { columns.count }
}

extension HistoryValues: ExpressibleByDictionaryLiteral {
    /// Values of a literal, in its order.
    public init(dictionaryLiteral elements: (String, SQLiteValue)...) {
        self.init(columns: elements.map(\.0), values: elements.map(\.1))
    }
}
