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

    var usage: String {
        let text = value.map { "\(name) \($0)" } ?? name
        if isRequired { return text }
        return isRepeatable ? "[\(text)]…" : "[\(text)]"
    }
}

/// The command line is not what the subcommand expects: exit code 2.
struct UsageError: Error {
    let message: String
    init(_ message: String) { self.message = message }
}
