/// What stands in a JSON5 text, with the lines that it begins on.
enum JSON5Value: Hashable {
    case null
    case bool(Bool)
    /// A whole number, written without a fraction or an exponent.
    case integer(Int64)
    /// Any other number.
    case real(Double)
    case text(String)
    case array([JSON5Value])
    case object([Member])

    /// A member of an object.
    struct Member: Hashable {
        let name: String
        /// The line of its name, from 1 on.
        let line: Int
        let value: JSON5Value
    }

    /// What it is, for messages: never its content.
    var kind: String {
        switch self {
        case .null: "null"
        case .bool: "true or false"
        case .integer, .real: "a number"
        case .text: "a text"
        case .array: "a list"
        case .object: "an object"
        }
    }
}

/// A text is not JSON5: where, and what would have been. Quotes nothing of the text, which may hold a password.
struct JSON5Error: Error, Hashable {
    let line: Int
    let column: Int
    let message: String
}
