internal import PersistentHistory

/// A value of a command's argument, or of a reply's field.
public enum ControlValue: Sendable, Hashable {
    /// No value.
    case null
    /// A truth value.
    case bool(Bool)
    /// A whole number. Many readers of JSON keep those up to 2^53 − 1 alone exactly.
    case integer(Int64)
    /// Text.
    case string(String)
}

extension ControlValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByNilLiteral
{
    /// Text.
    public init(stringLiteral value: String) { self = .string(value) }
    /// A whole number.
    public init(integerLiteral value: Int64) { self = .integer(value) }
    /// A truth value.
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    /// No value.
    public init(nilLiteral: ()) { self = .null }
}

extension ControlValue {
    /// The text; nil for any other kind.
    public var text: String? {
        if case .string(let value) = self { value } else { nil }
    }

    /// The whole number; nil for any other kind.
    public var number: Int64? {
        if case .integer(let value) = self { value } else { nil }
    }

    /// The truth value; nil for any other kind.
    public var truth: Bool? {
        if case .bool(let value) = self { value } else { nil }
    }
}

extension JSONReader {
    /// A value of an argument or field: no object, no array, no fraction.
    mutating func controlValue(_ what: String) throws(MessagingError) -> ControlValue {
        switch try kind() {
        case .null:
            try literal("null")
            return .null
        case .bool: return .bool(try bool(what))
        case .number: return .integer(try integer(what))
        case .string: return .string(try string(what))
        case .object, .array: throw malformed("\(what) is neither text, a whole number, true, false nor null")
        }
    }
}

extension JSONWriter {
    /// Writes values by name, in order of their names, as members of the open object.
    mutating func members(_ values: [String: ControlValue]) {
        for (name, value) in values.sorted(by: { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }) {
            key(name)
            switch value {
            case .null: null()
            case .bool(let value): bool(value)
            case .integer(let value): integer(value)
            case .string(let value): string(value)
            }
        }
    }
}
