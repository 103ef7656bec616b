internal import PersistentHistory
internal import TidingsSQLite

extension JSONWriter {
    /// What ``omission()`` writes, in bytes.
    static let omissionLength = 16

    /// Ends a message without changes.
    mutating func omission() {
        key("omitted")
        bool(true)
        endObject()
    }

    /// Writes the members of a message's envelope, all but those that depend on its changes.
    mutating func envelope(
        _ header: HistoryMessageHeader, _ identity: MessageIdentity, contextName: String?, entities: [String],
        source: String
    ) {
        member("specversion", MessageEnvelope.specificationVersion)
        member("id", identity.message)
        member("source", source)
        member("type", MessageEnvelope.type)
        member("time", RFC3339.string(microseconds: header.microseconds))
        member("store", identity.store)
        member("epoch", String(header.token.epoch))
        member("sequence", MessageText.padded(header.token.sequence))
        member("nonce", header.token.nonceText)
        if let nonce = header.previousNonce { member("previousnonce", HistoryToken.nonceText(nonce)) }
        member("author", header.author)
        if let contextName { member("contextname", contextName) }
        member("origin", header.origin)
        if !entities.isEmpty { member("entities", MessageText.list(entities)) }
        member("changecount", String(header.changeCount))
    }

    /// Writes what happened to tables themselves.
    mutating func schemaChanges(_ changes: [HistorySchemaChange]) {
        array { writer in
            for change in changes {
                writer.object { writer in
                    writer.member("kind", change.kind.rawValue)
                    writer.member("entity", change.entity)
                    writer.key("columns")
                    writer.strings(change.columns)
                    writer.member("detail", change.detail)
                }
            }
        }
    }
}
