/// What of a configuration may stand in a message: nothing that may hold a password, nothing that steers a terminal.
enum Shown {
    /// Longer texts are cut.
    private static let longest = 60

    /// A value that was found.
    static func found(_ text: String) -> String {
        // user:password@host, with or without the scheme in front.
        guard !text.contains("://"), !text.contains("@") else {
            return "a text that is not shown: it may hold a password"
        }
        return "'\(short(text))'"
    }

    /// The name of a key or variable.
    static func name(_ text: String) -> String {
        text.contains("://") || text.contains("@") ? "(a key that is not shown)" : short(text)
    }

    /// A path.
    static func path(_ text: String) -> String { text.contains("://") ? "(a URL)" : printable(text) }

    private static func short(_ text: String) -> String {
        let shown = printable(text)
        return shown.count <= longest ? shown : shown.prefix(longest) + "…"
    }

    private static func printable(_ text: String) -> String {
        var result = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator: result.append("\u{FFFD}")
            default: result.append(scalar)
            }
        }
        return String(result)
    }
}

/// Texts as JSON has them.
enum JSONText {
    /// A list of texts.
    static func list(_ elements: [String]) -> String { "[" + elements.map(quoted).joined(separator: ", ") + "]" }

    /// The text in quotes.
    static func quoted(_ text: String) -> String {
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": result += "\\\(scalar)"
            case _ where scalar.value < 0x20:
                let digits = String(scalar.value, radix: 16)
                result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "\""
    }
}
