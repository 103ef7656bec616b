/// A subcommand of `tidings`: what it is called, what it takes, and what it does.
protocol Subcommand {
    /// What is typed: one word, or several with spaces between them.
    static var name: String { get }
    /// One line for the list of subcommands, without a full stop.
    static var summary: String { get }
    /// Most subcommands begin with ``Operand/database``.
    static var operands: [Operand] { get }
    static var options: [Option] { get }
    /// More for the help, in one paragraph; empty where there is nothing to add.
    static var details: String { get }
    /// True for what only other subcommands start: it is not listed.
    static var isHidden: Bool { get }
    /// Lines that the help ends with.
    static var appendix: [String] { get }

    static func run(_ arguments: Arguments) async throws
}

extension Subcommand {
    static var operands: [Operand] { [.database] }
    static var options: [Option] { [] }
    static var details: String { "" }
    static var isHidden: Bool { false }
    static var appendix: [String] { [] }

    /// Whether the first operand is the database.
    static var hasDatabase: Bool { operands.first?.isDatabase == true }

    /// Reads the words behind the subcommand's name, and runs.
    static func run(words: [String]) async throws {
        if words.prefix(while: { $0 != "--" }).contains(where: { $0 == "--help" || $0 == "-h" }) {
            Output.line(help)
            return
        }
        let arguments = try Arguments(words, operands: operands, options: options)
        let path = arguments.database
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
        guard !path.isEmpty else { throw UsageError("DB is empty: give the path of the store's database file") }
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
        lines += HelpText.table(operands + options)
        if !appendix.isEmpty { lines += [""] + appendix }
        return lines.joined(separator: "\n")
    }

    private static var usage: String {
        HelpText.wrapped(["usage: tidings \(name)"] + operands.map(\.usage) + options.map(\.usage), indent: "    ")
    }
}

/// Lays out what help consists of.
enum HelpText {
    /// Two columns, the first as wide as its widest entry.
    static func table(_ rows: [(String, String)]) -> [String] { columns(rows.map { [$0, $1] }).map { "  \($0)" } }

    /// Columns as wide as their widest entries, but for the last one.
    static func columns(_ rows: [[String]]) -> [String] {
        let count = rows.map(\.count).max() ?? 0
        let widths = (0..<count).map { column in rows.map { column < $0.count ? $0[column].count : 0 }.max() ?? 0 }
        return rows.map { row in
            row.indices.map { column in
                let isLast = column == row.count - 1
                return isLast
                    ? row[column] : row[column] + String(repeating: " ", count: widths[column] - row[column].count)
            }.joined(separator: "  ")
        }
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
