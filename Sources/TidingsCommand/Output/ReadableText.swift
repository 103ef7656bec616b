import PersistentHistory
import TidingsSQLite

/// What history looks like to people. Whatever comes from the database stays on its line and cannot steer a terminal.
enum ReadableText {
    /// The characters of a text that are shown.
    private static let longestText = 200
    /// The bytes of a blob that are shown.
    private static let longestBlob = 16

    /// Sequence, time, author with context, origin.
    static func header(_ transaction: HistoryTransaction) -> String {
        let context = transaction.contextName.map { "/\($0)" } ?? ""
        let time = RFC3339.string(microseconds: transaction.microseconds)
        let who = plain("\(transaction.author)\(context)")
        return "\(transaction.token.sequence)  \(time)  \(who)  \(plain(transaction.origin.description))"
    }

    /// What happened to a table.
    static func line(_ change: HistorySchemaChange) -> String {
        let detail = change.detail.isEmpty ? "" : ": \(change.detail)"
        return plain("* \(change.kind.rawValue) \(change.entity)(\(change.columns.joined(separator: ", ")))\(detail)")
    }

    /// What happened to an object.
    static func line(_ change: DecodedChange) -> String {
        let key = change.key.map { "\(plain($0.column))=\(value($0.value))" }.joined(separator: ",")
        let object = "\(plain(change.entity)) \(key)"
        switch change.operation {
        case .insert: return joined("+ \(object)", values(change.after, change))
        case .delete: return joined("- \(object)", values(change.before, change))
        case .update:
            let changes = change.changed.map { column in
                let name = plain(column)
                guard !change.redacted.contains(column) else { return "\(name): (redacted)" }
                return "\(name): \(value(change.before?[column])) → \(value(change.after?[column]))"
            }
            return joined("~ \(object)", changes)
        }
    }

    private static func joined(_ head: String, _ parts: [String]) -> String {
        parts.isEmpty ? head : "\(head)  \(parts.joined(separator: ", "))"
    }

    /// The values that the key does not tell already.
    private static func values(_ values: HistoryValues?, _ change: DecodedChange) -> [String] {
        let others = (values ?? [:]).filter { change.key[$0.column] == nil }
        return others.map { "\(plain($0.column)): \(value($0.value))" }
            + change.redacted.map { "\(plain($0)): (redacted)" }
    }

    private static func value(_ value: SQLiteValue?) -> String {
        switch value {
        case nil: "(not recorded)"
        case .null: "NULL"
        case .integer(let number): String(number)
        case .real(let number): number.description
        case .text(let text): quoted(text)
        case .malformedText(let bytes): "(text of \(bytes.count) bytes that are not UTF-8)"
        case .blob(let bytes):
            bytes.count <= longestBlob ? "x'\(hexadecimal(bytes))'" : "(blob of \(bytes.count) bytes)"
        }
    }

    private static func hexadecimal(_ bytes: [UInt8]) -> String {
        bytes.map { $0 < 16 ? "0" + String($0, radix: 16) : String($0, radix: 16) }.joined()
    }

    private static func quoted(_ text: String) -> String {
        // Not by its count: that would walk over all of a long text.
        guard let end = text.index(text.startIndex, offsetBy: longestText, limitedBy: text.endIndex),
            end != text.endIndex
        else { return "\"\(escaped(text, quote: true))\"" }
        return "\"\(escaped(text[..<end], quote: true))…\""
    }

    /// Names and other short texts, without quotes.
    static func plain(_ text: String) -> String { escaped(text[...], quote: false) }

    private static func escaped(_ text: some StringProtocol, quote: Bool) -> String {
        // Most text is plain, and goes as it is.
        let isPlain = text.utf8.allSatisfy { (0x20..<0x7F).contains($0) && !(quote && ($0 == 0x22 || $0 == 0x5C)) }
        guard !isPlain else { return String(text) }
        var result = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\n": result.append(contentsOf: "\\n".unicodeScalars)
            case "\r": result.append(contentsOf: "\\r".unicodeScalars)
            case "\t": result.append(contentsOf: "\\t".unicodeScalars)
            case "\"" where quote, "\\" where quote: result.append(contentsOf: "\\\(scalar)".unicodeScalars)
            default:
                if isVisible(scalar) {
                    result.append(scalar)
                } else {
                    result.append(contentsOf: "\\u{\(String(scalar.value, radix: 16))}".unicodeScalars)
                }
            }
        }
        return String(result)
    }

    /// False for what steers a terminal or turns the direction of text, so that it shows something else.
    private static func isVisible(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator: false
        case .format: !(0x202A...0x202E).contains(scalar.value) && !(0x2066...0x2069).contains(scalar.value)
        default: true
        }
    }
}
