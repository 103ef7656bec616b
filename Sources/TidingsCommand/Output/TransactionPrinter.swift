import PersistentHistory
import TidingsSQLite

/// Prints transactions one by one, in memory that does not grow with their size.
protocol TransactionPrinter: Sendable {
    func print(_ transaction: HistoryTransaction) async throws
}

/// One JSON object a line: token, author, context, origin, time, entities, changes.
struct JSONPrinter: TransactionPrinter {
    func print(_ transaction: HistoryTransaction) async throws {
        var writer = JSONWriter()
        writer.beginObject()
        writer.key("token")
        writer.token(transaction.token)
        writer.key("author")
        writer.string(transaction.author)
        writer.key("context")
        writer.string(transaction.contextName)
        writer.key("origin")
        writer.string(transaction.origin.description)
        writer.key("time")
        writer.string(RFC3339.string(microseconds: transaction.microseconds))
        writer.key("entities")
        writer.strings(transaction.entities)
        writer.key("changes")
        writer.beginArray()
        for try await change in transaction.changes {
            writer.change(change.decoded())
            if writer.bytes.count > 1 << 16 { Output.write(writer.takeBytes()) }
        }
        writer.endArray()
        writer.endObject()
        writer.newline()
        Output.write(writer.bytes)
    }
}

/// For people: a line that says who and when, then a line a change.
struct TextPrinter: TransactionPrinter {
    func print(_ transaction: HistoryTransaction) async throws {
        let context = transaction.contextName.map { "/\($0)" } ?? ""
        let time = RFC3339.string(microseconds: transaction.microseconds)
        Output.line("\(transaction.token.sequence)  \(time)  \(transaction.author)\(context)  \(transaction.origin)")
        for change in try await transaction.schemaChanges() {
            let detail = change.detail.isEmpty ? "" : ": \(change.detail)"
            Output.line(
                "  * \(change.kind.rawValue) \(change.entity)(\(change.columns.joined(separator: ", ")))\(detail)")
        }
        for try await change in transaction.changes { Output.line("  " + line(change.decoded())) }
    }

    private func line(_ change: DecodedChange) -> String {
        let object = "\(change.entity) \(text(change.key, ", "))"
        switch change.operation {
        case .insert: return "+ \(object)  \(rest(change.after, but: change.key))"
        case .delete: return "- \(object)  \(rest(change.before, but: change.key))"
        case .update:
            let changes = change.changed.map { column in
                "\(column): \(value(change.before?[column])) → \(value(change.after?[column]))"
            }
            return "~ \(object)  \(changes.joined(separator: ", "))"
        }
    }

    /// The values that the key does not tell already.
    private func rest(_ values: HistoryValues?, but key: HistoryValues) -> String {
        let others = (values ?? [:]).filter { key[$0.column] == nil }
        return others.map { "\($0.column): \(value($0.value))" }.joined(separator: ", ")
    }

    private func text(_ values: HistoryValues, _ separator: String) -> String {
        values.map { "\($0.column)=\(value($0.value))" }.joined(separator: separator)
    }

    private func value(_ value: SQLiteValue?) -> String {
        switch value {
        case nil: "(redacted)"
        case .null: "NULL"
        case .integer(let number): String(number)
        case .real(let number): number.description
        case .text(let text): quoted(text)
        case .malformedText(let bytes): "malformed text of \(bytes.count) bytes"
        case .blob(let bytes): bytes.count <= 16 ? "x'\(hexadecimal(bytes))'" : "blob of \(bytes.count) bytes"
        }
    }

    private func hexadecimal(_ bytes: [UInt8]) -> String {
        bytes.map { $0 < 16 ? "0" + String($0, radix: 16) : String($0, radix: 16) }.joined()
    }

    /// Text in quotes, on one line; control characters would otherwise reach the terminal.
    private func quoted(_ text: String) -> String {
        let shown = text.count <= 200 ? text : text.prefix(200) + "…"
        var writer = JSONWriter()
        writer.string(shown)
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
