import FoundationEssentials

/// The options and operands of a subcommand, read from the command line.
struct Arguments: Sendable {
    /// What is no option, in order.
    private(set) var operands: [String] = []
    private var values: [String: [String]] = [:]
    private let declared: [Operand]
    private let options: [Option]

    /// Reads the words behind the subcommand's name. `--` ends the options.
    init(_ words: [String], operands declared: [Operand] = [], options: [Option] = []) throws(UsageError) {
        self.declared = declared
        self.options = options
        var rest = words[...]
        while let word = rest.popFirst() {
            if word == "--" {
                operands += rest
                break
            } else if word.hasPrefix("-"), word != "-" {
                try readOption(word, &rest)
            } else {
                operands.append(word)
            }
        }
        try checkOperands()
        for option in options where option.isRequired && values[option.name] == nil {
            throw UsageError("\(option.head) is required: \(option.help)")
        }
    }

    private mutating func readOption(_ word: String, _ rest: inout ArraySlice<String>) throws(UsageError) {
        let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard let option = options.first(where: { $0.name == parts[0] }) else {
            throw UsageError("unknown option \(parts[0]): what is none but begins with a dash goes behind --")
        }
        guard option.isRepeatable || values[option.name] == nil else {
            throw UsageError("\(option.name) is given twice")
        }
        guard let value = option.value else {
            guard parts.count == 1 else { throw UsageError("\(option.name) takes no value") }
            values[option.name] = [""]
            return
        }
        if parts.count == 2 {
            values[option.name, default: []].append(parts[1])
        } else if let next = rest.first, !next.hasPrefix("--") {
            values[option.name, default: []].append(next)
            rest.removeFirst()
        } else {
            throw UsageError("\(option.name) expects \(value): \(option.help)")
        }
    }

    private func checkOperands() throws(UsageError) {
        let required = declared.filter(\.isRequired)
        if operands.count < required.count {
            let missing = required[operands.count]
            throw UsageError("\(missing.name) is missing: \(missing.help)")
        }
        if operands.count > declared.count, declared.last?.isRepeatable != true {
            let operand = operands[declared.count]
            // A broker's URL holds a password.
            throw UsageError("unexpected operand \(operand.contains("://") ? "that is a URL" : operand)")
        }
    }

    /// The operand DB, which stands first; nil where it is left out, or a dash: then the configured one is meant.
    ///
    /// Where a fixed number of operands follows, their number tells whether it was left out. Where any number follows, it can
    /// be left out with all of them only.
    var database: String? {
        guard isDatabaseGiven, let path = operands.first, path != "-" else { return nil }
        return path
    }

    /// The operands behind DB.
    var furtherOperands: [String] { isDatabaseGiven ? Array(operands.dropFirst()) : operands }

    private var isDatabaseGiven: Bool {
        guard declared.first?.isDatabase == true else { return false }
        return declared.last?.isRepeatable == true ? !operands.isEmpty : operands.count == declared.count
    }

    /// Whether the subcommand has an option of this name.
    func takes(_ name: String) -> Bool { options.contains { $0.name == name } }

    /// Whether an option is there.
    func has(_ name: String) -> Bool { strings(name) != nil }

    /// The value of an option; nil where it is not there.
    func string(_ name: String) -> String? { strings(name)?.first }

    /// All values of a repeatable option; nil where it is not there.
    func strings(_ name: String) -> [String]? {
        precondition(takes(name), "\(name) is not declared")
        return values[name]
    }

    /// The value of an option as a whole number from `minimum` on.
    func integer(_ name: String, minimum: Int64 = 0) throws(UsageError) -> Int64? {
        guard let text = string(name) else { return nil }
        return try Self.integer(text, of: name, minimum: minimum)
    }

    /// Reads a whole number from `minimum` on.
    static func integer(_ text: String, of name: String, minimum: Int64) throws(UsageError) -> Int64 {
        guard let number = Int64(text), number >= minimum, !text.hasPrefix("+") else {
            throw UsageError("\(name) expects a whole number from \(minimum) on, not \(text)")
        }
        return number
    }

    /// The value of an option as a time.
    func time(_ name: String, now: Date) throws(UsageError) -> Date? {
        guard let text = string(name) else { return nil }
        return try TimeOption.parse(text, of: name, now: now)
    }
}
