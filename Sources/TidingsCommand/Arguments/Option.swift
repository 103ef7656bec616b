/// An option of a subcommand, as its help and the parser know it.
struct Option: Sendable {
    /// With its dashes, such as `--author`.
    let name: String
    /// What the value is called in the help; nil for an option without one.
    let value: String?
    let help: String
    let isRequired: Bool
    let isRepeatable: Bool

    /// An option with a value.
    static func value(
        _ name: String, _ value: String, _ help: String, isRequired: Bool = false, isRepeatable: Bool = false
    ) -> Option {
        Option(name: name, value: value, help: help, isRequired: isRequired, isRepeatable: isRepeatable)
    }

    /// An option that is there or not.
    static func flag(_ name: String, _ help: String) -> Option {
        Option(name: name, value: nil, help: help, isRequired: false, isRepeatable: false)
    }

    /// The option with its value, as the help lists it.
    var head: String { value.map { "\(name) \($0)" } ?? name }

    /// The option in the line of usage.
    var usage: String {
        if isRequired { return head }
        return isRepeatable ? "[\(head)]…" : "[\(head)]"
    }
}

/// What stands on the command line without a name, told by its place.
struct Operand: Sendable {
    let name: String
    let help: String
    let isRequired: Bool
    /// True for the last one, which takes all that is left.
    let isRepeatable: Bool

    /// An operand that must be there.
    static func one(_ name: String, _ help: String) -> Operand {
        Operand(name: name, help: help, isRequired: true, isRepeatable: false)
    }

    /// An operand that may be left out.
    static func optional(_ name: String, _ help: String) -> Operand {
        Operand(name: name, help: help, isRequired: false, isRepeatable: false)
    }

    /// Any number of operands, none included.
    static func any(_ name: String, _ help: String) -> Operand {
        Operand(name: name, help: help, isRequired: false, isRepeatable: true)
    }

    /// The database, which most subcommands begin with.
    static let database = Operand.optional(
        "DB", "the store's database file; left out, or -: the one that the key store configures")

    /// The database where any number of operands follows, the first of which could not be told from it.
    static let leadingDatabase = Operand.optional(
        "DB", "the store's database file, always first; -, or no operand at all: the configured one")

    /// Whether it is the database.
    var isDatabase: Bool { name == "DB" }

    /// The operand in the line of usage.
    var usage: String {
        let text = isRepeatable ? "\(name)…" : name
        return isRequired ? text : "[\(text)]"
    }
}

/// The command line is not what the subcommand expects: exit code 2.
struct UsageError: Error {
    let message: String
    init(_ message: String) { self.message = message }
}
