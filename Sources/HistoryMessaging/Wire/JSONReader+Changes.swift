internal import PersistentHistory
internal import TidingsSQLite

extension JSONReader {
    /// What the member `data` holds.
    mutating func transactionData() throws(MessagingError) -> (
        changes: [DecodedChange], schemaChanges: [HistorySchemaChange]
    ) {
        var changes: [DecodedChange]?
        var schemaChanges: [HistorySchemaChange] = []
        var names = MemberNames()
        try beginObject("data")
        while let name = try nextMember(&names) {
            switch name {
            case "changes":
                var list: [DecodedChange] = []
                try beginArray("changes")
                while try nextElement() { list.append(try change()) }
                changes = list
            case "schema":
                try beginArray("schema")
                while try nextElement() { schemaChanges.append(try schemaChange()) }
            default: try skip()
            }
        }
        guard let changes else { throw malformed("'changes' is missing") }
        return (changes, schemaChanges)
    }

    /// One change.
    private mutating func change() throws(MessagingError) -> DecodedChange {
        let start = position
        var parts = ChangeParts()
        var names = MemberNames()
        try beginObject("a change")
        while let name = try nextMember(&names) {
            switch name {
            case "entity": parts.entity = try string("entity")
            case "op": parts.operation = try choice("op")
            case "key": parts.key = try values("key")
            case "before": parts.before = try null() ? nil : try values("before")
            case "after": parts.after = try null() ? nil : try values("after")
            case "changed": parts.changed = try strings("changed")
            case "redacted": parts.redacted = try strings("redacted")
            default: try skip()
            }
        }
        guard let change = parts.change else {
            throw malformed("a change without the members that its operation has", at: start)
        }
        return change
    }

    private mutating func schemaChange() throws(MessagingError) -> HistorySchemaChange {
        let start = position
        var kind: HistorySchemaChange.Kind?
        var entity: String?
        var columns: [String]?
        var detail = ""
        var names = MemberNames()
        try beginObject("a schema record")
        while let name = try nextMember(&names) {
            switch name {
            case "kind": kind = try choice("kind") as HistorySchemaChange.Kind
            case "entity": entity = try string("entity")
            case "columns": columns = try strings("columns")
            case "detail": detail = try string("detail")
            default: try skip()
            }
        }
        guard let kind, let entity, let columns else {
            throw malformed("a schema record without kind, entity or columns", at: start)
        }
        return HistorySchemaChange(kind: kind, entity: entity, columns: columns, detail: detail)
    }

    /// One of a few words.
    private mutating func choice<Choice: RawRepresentable<String>>(_ what: String) throws(MessagingError) -> Choice {
        skipWhitespace()
        let start = position
        guard let choice = Choice(rawValue: try string(what)) else {
            throw malformed("'\(what)' is none of the words that it can be", at: start)
        }
        return choice
    }

    private mutating func strings(_ what: String) throws(MessagingError) -> [String] {
        var strings: [String] = []
        try beginArray(what)
        while try nextElement() { strings.append(try string(what)) }
        return strings
    }

    /// Columns and their values.
    private mutating func values(_ what: String) throws(MessagingError) -> HistoryValues {
        var names = MemberNames()
        var values: [SQLiteValue] = []
        try beginObject(what)
        while try nextMember(&names) != nil { values.append(try value()) }
        return HistoryValues(columns: names.names, values: values)
    }
}

/// The members of a change, as far as they have been read.
private struct ChangeParts {
    var entity: String?
    var operation: HistoryChange.Operation?
    var key: HistoryValues?
    var before: HistoryValues?
    var after: HistoryValues?
    var changed: [String] = []
    var redacted: [String] = []

    /// The change; nil where its operation has other members than these.
    var change: DecodedChange? {
        guard let entity, let operation, let key, !key.isEmpty, (before != nil) == (operation != .insert),
            (after != nil) == (operation != .delete), changed.isEmpty == (operation != .update)
        else { return nil }
        return DecodedChange(
            entity: entity, operation: operation, key: key,
            newKey: operation == .update ? Self.renamed(key, after ?? [:]) : nil, changed: changed,
            redacted: redacted, before: before, after: after)
    }

    /// The key after an update; nil where none of its columns changed.
    private static func renamed(_ key: HistoryValues, _ after: HistoryValues) -> HistoryValues? {
        let changed = key.columns.map { after[$0] }
        guard changed.contains(where: { $0 != nil }) else { return nil }
        return HistoryValues(columns: key.columns, values: zip(changed, key.values).map { $0 ?? $1 })
    }
}
