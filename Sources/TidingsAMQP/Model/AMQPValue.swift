/// A value in a table of headers or arguments.
///
/// [Field types of RabbitMQ](https://www.rabbitmq.com/amqp-0-9-1-errata.html#section_3)
public enum AMQPValue: Sendable, Hashable {
    /// No value.
    case null
    /// A truth value.
    case bool(Bool)
    /// A whole number of 64 bits; narrower ones are widened when they are read.
    case integer(Int64)
    /// An unsigned number that does not fit into ``integer(_:)``.
    case unsigned(UInt64)
    /// A floating-point number; those of 32 bits are widened when they are read.
    case double(Double)
    /// A decimal number: value × 10^(−decimals).
    case decimal(value: UInt32, decimals: UInt8)
    /// Text in UTF-8.
    case string(String)
    /// Bytes, also those of a string that is not UTF-8.
    case bytes([UInt8])
    /// Seconds since 1970.
    case timestamp(UInt64)
    /// A list.
    case array([AMQPValue])
    /// A table within the table.
    case table(AMQPTable)
    /// A value that is not handed on: of an unknown kind, or nested deeper than ``AMQPTable/maximumDepth``.
    case unreadable
}

extension AMQPValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral {
    /// Text.
    public init(stringLiteral value: String) { self = .string(value) }
    /// A whole number.
    public init(integerLiteral value: Int64) { self = .integer(value) }
    /// A truth value.
    public init(booleanLiteral value: Bool) { self = .bool(value) }
}

/// A table of headers or arguments: names with values, in the order in which they are sent.
public struct AMQPTable: Sendable, Hashable {
    /// How deep tables and arrays may be nested in each other, both ways.
    public static let maximumDepth = 16

    /// The names and values, in order. RabbitMQ takes the last where a name occurs twice.
    public var entries: [Entry]

    /// One name and its value.
    public struct Entry: Sendable, Hashable {
        /// The name, at most 128 bytes of UTF-8.
        public var name: String
        /// The value.
        public var value: AMQPValue

        /// Makes an entry.
        public init(_ name: String, _ value: AMQPValue) {
            self.name = name
            self.value = value
        }
    }

    /// Makes a table.
    public init(_ entries: [Entry] = []) { self.entries = entries }

    /// True where there is nothing in it.
    public var isEmpty: Bool { entries.isEmpty }

    /// The value of a name; setting nil removes it, setting a new name appends it.
    public subscript(name: String) -> AMQPValue? {
        get { entries.last { $0.name == name }?.value }
        set {
            // All of them: else an earlier one of the same name would take its place.
            guard let newValue else { return entries.removeAll { $0.name == name } }
            if let index = entries.lastIndex(where: { $0.name == name }) {
                entries[index].value = newValue
            } else {
                entries.append(Entry(name, newValue))
            }
        }
    }
}

extension AMQPTable: ExpressibleByDictionaryLiteral {
    /// A table in the order of the literal.
    public init(dictionaryLiteral elements: (String, AMQPValue)...) {
        entries = elements.map { Entry($0.0, $0.1) }
    }
}
