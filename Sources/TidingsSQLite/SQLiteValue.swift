/// A value of one of SQLite's storage classes, owned by Swift.
///
/// [Datatypes in SQLite](https://www.sqlite.org/datatype3.html)
public enum SQLiteValue: Sendable, Hashable {
    /// NULL.
    case null
    /// A 64-bit integer.
    case integer(Int64)
    /// A 64-bit floating point number. Never NaN: SQLite stores NULL instead.
    case real(Double)
    /// Text that is valid UTF-8. May hold NUL characters.
    case text(String)
    /// Text whose bytes are not valid UTF-8, as they are.
    case malformedText([UInt8])
    /// Bytes.
    case blob([UInt8])

    /// Makes a text value of bytes, keeping them exactly when they are not valid UTF-8.
    public init(textBytes bytes: some Collection<UInt8>) {
        if let string = String(validating: bytes, as: UTF8.self) {
            self = .text(string)
        } else {
            self = .malformedText(Array(bytes))
        }
    }

    /// True for NULL.
    public var isNull: Bool { self == .null }

    /// Equal as SQLite stores them: reals by their bits, text by its bytes.
    ///
    /// Swift compares strings by canonical equivalence, under which "é" in its two spellings would be one value.
    public static func == (left: SQLiteValue, right: SQLiteValue) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.integer(let a), .integer(let b)): a == b
        case (.real(let a), .real(let b)): a.bitPattern == b.bitPattern
        case (.text(let a), .text(let b)): a.utf8.elementsEqual(b.utf8)
        case (.malformedText(let a), .malformedText(let b)): a == b
        case (.blob(let a), .blob(let b)): a == b
        default: false
        }
    }

    /// Hashes what `==` compares.
    public func hash(into hasher: inout Hasher) {
        switch self {
        case .null: hasher.combine(0)
        case .integer(let value): hasher.combine(value)
        case .real(let value): hasher.combine(value.bitPattern)
        case .text(let value): for byte in value.utf8 { hasher.combine(byte) }
        case .malformedText(let value), .blob(let value): hasher.combine(value)
        }
    }
}

extension SQLiteValue: ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral, ExpressibleByStringLiteral,
    ExpressibleByNilLiteral
{
    /// An integer.
    public init(integerLiteral value: Int64) { self = .integer(value) }
    /// A real.
    public init(floatLiteral value: Double) { self = .real(value) }
    /// Text.
    public init(stringLiteral value: String) { self = .text(value) }
    /// NULL.
    public init(nilLiteral: ()) { self = .null }
}
