/// A subcommand of `tidings`: what it is called, what it takes, and what it does.
protocol Subcommand {
    static var name: String { get }
    /// One line for the list of subcommands.
    static var summary: String { get }
    /// How the operands are called, in order.
    static var operands: String { get }
    /// How many operands there may be.
    static var operandCount: ClosedRange<Int> { get }
    static var options: [Option] { get }
    /// More for the help; empty where there is nothing to add.
    static var details: String { get }

    static func run(_ arguments: Arguments) async throws
}

extension Subcommand {
    static var details: String { "" }

    /// The help, from what is declared.
    static var help: String {
        var lines = [
            "usage: tidings \(name) \(([operands] + options.map(\.usage)).joined(separator: " "))", "", summary + ".",
        ]
        if !details.isEmpty { lines += ["", details] }
        let listed = options + [.flag("--help", "print this text")]
        let heads = listed.map { option in option.value.map { "\(option.name) \($0)" } ?? option.name }
        let width = (heads.map(\.count).max() ?? 0) + 2
        lines.append("")
        for (option, head) in zip(listed, heads) {
            lines.append("  \(head)\(String(repeating: " ", count: width - head.count))\(option.help)")
        }
        return lines.joined(separator: "\n")
    }

    /// Reads the words, checks the number of operands, and runs.
    static func run(words: [String]) async throws {
        let untilEnd = words.prefix { $0 != "--" }
        if untilEnd.contains("--help") {
            Output.line(help)
            return
        }
        let arguments = try Arguments(words, options: options)
        guard operandCount.contains(arguments.operands.count) else {
            throw UsageError("expected \(operands), got \(arguments.operands.count) operands")
        }
        try await run(arguments)
    }
}
