@testable import TidingsServices

/// What the table of keys says, as a sample and as a page: the files must be equal to these.
enum ConfigurationDocument {
    /// `Config/tidings.json5`.
    static var sample: String {
        var lines = [
            "// A configuration of Tidings with every key: what it means, what it takes, and the default, which it has here.",
            "// Each may be left out. JSON5: comments, trailing commas, keys without quotes. An environment variable goes before",
            "// the file, the command line before both. Relative paths start at the working directory. To see what holds, and who",
            "// said so: tidings config check FILE",
            "{",
        ]
        for (index, key) in ConfigurationKey.all.enumerated() {
            let section = key.section
            if section != (index > 0 ? ConfigurationKey.all[index - 1].section : nil) {
                if index > 0, ConfigurationKey.all[index - 1].section != nil { lines += ["  },"] }
                if let section { lines += ["", "  // \(meaning(of: section))", "  \(section): {"] }
            }
            let indent = section == nil ? "  " : "    "
            let name = section.map { String(key.path.dropFirst($0.count + 1)) } ?? key.path
            lines += [
                "\(indent)// \(key.meaning)", "\(indent)// Takes: \(key.type.meaning). Variable: \(key.variable).",
            ]
            lines += ["\(indent)\(name): \(key.defaultText),"]
        }
        return (lines + ["  },", "}", ""]).joined(separator: "\n")
    }

    /// The tables of the article.
    static var tables: String {
        var lines: [String] = []
        for section in [nil] + ConfigurationKey.sections.map({ Optional($0.name) }) {
            lines += ["### \(section.map { "`\($0)`" } ?? "Store and services")", ""]
            if let section { lines += [meaning(of: section), ""] }
            lines += ["| key | takes | default | meaning |", "|---|---|---|---|"]
            for key in ConfigurationKey.all where key.section == section {
                let cells = ["`\(key.path)`, `\(key.variable)`", key.type.meaning, "`\(key.defaultText)`", key.meaning]
                lines.append("| " + cells.joined(separator: " | ") + " |")
            }
            lines.append("")
        }
        return lines.joined(separator: "\n")
    }

    private static func meaning(of section: String) -> String {
        ConfigurationKey.sections.first { $0.name == section }?.meaning ?? ""
    }
}
