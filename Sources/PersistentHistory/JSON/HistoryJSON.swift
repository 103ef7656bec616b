internal import FoundationEssentials
package import TidingsSQLite

extension JSONWriter {
    /// The largest integer that every reader of JSON keeps exactly.
    private static let largestExact: Int64 = (1 << 53) - 1

    /// Writes a value so that its storage class can be told: an integer as a number (past ±(2^53 − 1) as
    /// `{"$integer": "…"}`), a real always with a point or an exponent, an infinity as `{"$real": "Infinity"}`, text as
    /// a string (not valid UTF-8: `{"$text": base64}`), a blob as `{"$blob": base64}`, NULL as `null`.
    package mutating func value(_ value: SQLiteValue) {
        switch value {
        case .null: null()
        case .integer(let number):
            if (-Self.largestExact...Self.largestExact).contains(number) {
                integer(number)
            } else {
                tagged("$integer") { $0.string(String(number)) }
            }
        case .real(let number):
            if number.isFinite {
                literal(number.description)
            } else {
                tagged("$real") { $0.string(number > 0 ? "Infinity" : "-Infinity") }
            }
        case .text(let text): string(text)
        case .malformedText(let bytes): tagged("$text") { $0.base64(bytes) }
        case .blob(let bytes): tagged("$blob") { $0.base64(bytes) }
        }
    }

    private mutating func tagged(_ tag: String, _ value: (inout JSONWriter) -> Void) {
        object {
            $0.key(tag)
            value(&$0)
        }
    }

    /// Writes an object of columns and values; `null` for none at all.
    package mutating func values(_ values: HistoryValues?) {
        guard let values else {
            null()
            return
        }
        object { writer in
            for (column, value) in values {
                writer.key(column)
                writer.value(value)
            }
        }
    }

    /// Writes an array of strings.
    package mutating func strings(_ strings: [String]) {
        array { writer in for string in strings { writer.string(string) } }
    }

    /// Writes a token: store, epoch, sequence, nonce.
    package mutating func token(_ token: HistoryToken) {
        object { writer in
            writer.key("store")
            writer.string(token.storeID.uuidString.lowercased())
            writer.key("epoch")
            writer.integer(token.epoch)
            writer.key("sequence")
            writer.integer(token.sequence)
            writer.key("nonce")
            writer.string(token.nonceText)
        }
    }

    /// Writes what there is to know of a transaction besides its changes, as members of the open object.
    package mutating func header(of transaction: HistoryTransaction) {
        key("token")
        token(transaction.token)
        key("author")
        string(transaction.author)
        key("context")
        string(transaction.contextName)
        key("origin")
        string(transaction.origin.description)
        key("time")
        string(RFC3339.string(microseconds: transaction.microseconds))
        key("entities")
        strings(transaction.entities)
    }

    /// Writes a change: entity, op, key, before, after, changed; redacted where some of its columns are.
    package mutating func change(_ change: DecodedChange) {
        object { writer in
            writer.key("entity")
            writer.string(change.entity)
            writer.key("op")
            writer.string(change.operation.rawValue)
            writer.key("key")
            writer.values(change.key)
            writer.key("before")
            writer.values(change.before)
            writer.key("after")
            writer.values(change.after)
            writer.key("changed")
            writer.strings(change.changed)
            if !change.redacted.isEmpty {
                writer.key("redacted")
                writer.strings(change.redacted)
            }
        }
    }
}
