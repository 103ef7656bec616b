import Foundation
import PersistentHistory
import TidingsSQLite

/// The options and operands of a subcommand, read from the command line.
struct Arguments: Sendable {
    /// What is no option, in order.
    private(set) var operands: [String] = []
    private var values: [String: [String]] = [:]

    /// Reads the words behind the subcommand's name. `--` ends the options.
    init(_ words: [String], options: [Option]) throws(UsageError) {
        var rest = words[...]
        while let word = rest.popFirst() {
            guard word.hasPrefix("--"), word != "--" else {
                if word == "--" {
                    operands += rest
                    break
                }
                if word.hasPrefix("-"), word.count > 1 {
                    throw UsageError("unknown option \(word): options have two dashes")
                }
                operands.append(word)
                continue
            }
            try readOption(word, &rest, options)
        }
        for option in options where option.isRequired && values[option.name] == nil {
            throw UsageError("\(option.name) is required: \(option.help)")
        }
    }

    private mutating func readOption(
        _ word: String, _ rest: inout ArraySlice<String>, _ options: [Option]
    ) throws(UsageError) {
        let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard let option = options.first(where: { $0.name == parts[0] }) else {
            throw UsageError("unknown option \(parts[0])")
        }
        guard option.isRepeatable || values[option.name] == nil else {
            throw UsageError("\(option.name) is given twice")
        }
        guard let valueName = option.value else {
            guard parts.count == 1 else { throw UsageError("\(option.name) takes no value") }
            values[option.name] = [""]
            return
        }
        if parts.count == 2 {
            values[option.name, default: []].append(parts[1])
        } else if let next = rest.popFirst() {
            values[option.name, default: []].append(next)
        } else {
            throw UsageError("\(option.name) expects \(valueName)")
        }
    }

    /// Whether an option is there.
    func has(_ name: String) -> Bool { values[name] != nil }

    /// The value of an option; nil where it is not there.
    func string(_ name: String) -> String? { values[name]?.first }

    /// All values of a repeatable option; nil where it is not there.
    func strings(_ name: String) -> [String]? { values[name] }

    /// The value of an option as a whole number from `minimum` on.
    func integer(_ name: String, minimum: Int64 = 0) throws(UsageError) -> Int64? {
        guard let text = string(name) else { return nil }
        guard let number = Int64(text), number >= minimum else {
            throw UsageError("\(name) expects a whole number from \(minimum) on, not \(text)")
        }
        return number
    }

    /// The value of an option as a time: RFC 3339, or an age such as `7d`, `12h`, `30m`, `45s`.
    func time(_ name: String, now: Date) throws(UsageError) -> Date? {
        guard let text = string(name) else { return nil }
        if let time = RFC3339.microseconds(text) { return Date(microsecondsSince1970: time) }
        let units: [Character: Double] = ["d": 86_400, "h": 3600, "m": 60, "s": 1]
        guard let unit = text.last.flatMap({ units[$0] }), let number = UInt32(text.dropLast()) else {
            throw UsageError(
                "\(name) expects a time such as 2026-11-30T12:00:00Z, or an age such as 7d, 12h, 30m or 45s, not \(text)"
            )
        }
        return now.addingTimeInterval(-Double(number) * unit)
    }
}
