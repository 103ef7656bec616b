/// A subcommand of `tidings`: what it is called, what it takes, and what it does.
protocol Subcommand {
    static var name: String { get }
    /// One line for the list of subcommands, without a full stop.
    static var summary: String { get }
    /// The first is the database, where there are any.
    static var operands: [Operand] { get }
    static var options: [Option] { get }
    /// More for the help, in one paragraph; empty where there is nothing to add.
    static var details: String { get }
    /// True for what only other subcommands start: it is not listed.
    static var isHidden: Bool { get }

    static func run(_ arguments: Arguments) async throws
}

extension Subcommand {
    static var operands: [Operand] { [.database] }
    static var options: [Option] { [] }
    static var details: String { "" }
    static var isHidden: Bool { false }

    /// Reads the words behind the subcommand's name, and runs.
    static func run(words: [String]) async throws {
        if words.prefix(while: { $0 != "--" }).contains(where: { $0 == "--help" || $0 == "-h" }) {
            Output.line(help)
            return
        }
        let arguments = try Arguments(words, operands: operands, options: options)
        let path = arguments.operands.first.flatMap { operands.isEmpty ? nil : $0 }
        if let path { try checkPath(path) }
        do {
            try await run(arguments)
        } catch let error as UsageError {
            throw error
        } catch {
            throw CommandError(CommandError.text(of: error, in: path))
        }
    }

    /// Refuses what names no file, before a remedy for missing files is given.
    private static func checkPath(_ path: String) throws(UsageError) {
        guard !path.isEmpty else { throw UsageError("DB is empty: give the path of \(Operand.database.help)") }
        guard path != ":memory:" else {
            throw UsageError("DB must be a file: history in memory could be shared with nobody")
        }
    }

    /// The help, from what is declared.
    static var help: String {
        var lines = [usage, "", summary + "."]
        if !details.isEmpty { lines += ["", HelpText.wrapped(details.split(separator: " ").map(String.init))] }
        lines.append("")
        let operands = operands.map { ($0.isRepeatable ? "\($0.name)…" : $0.name, $0.help) }
        let options = (options + [.flag("--help", "print this text")]).map { ($0.head, $0.help) }
        return (lines + HelpText.table(operands + options)).joined(separator: "\n")
    }

    private static var usage: String {
        HelpText.wrapped(["usage: tidings \(name)"] + operands.map(\.usage) + options.map(\.usage), indent: "    ")
    }
}

/// Lays out what help consists of.
enum HelpText {
    /// Two columns, the first as wide as its widest entry.
    static func table(_ rows: [(String, String)]) -> [String] {
        let width = (rows.map(\.0.count).max() ?? 0) + 2
        return rows.map { head, text in "  \(head)\(String(repeating: " ", count: width - head.count))\(text)" }
    }

    /// Words side by side in lines of at most 100 characters, further lines indented.
    static func wrapped(_ words: [String], indent: String = "") -> String {
        var lines: [String] = []
        for word in words {
            if let last = lines.last, last.count + 1 + word.count <= 100 {
                lines[lines.count - 1] = "\(last) \(word)"
            } else {
                lines.append(lines.isEmpty ? word : indent + word)
            }
        }
        return lines.joined(separator: "\n")
    }
}
