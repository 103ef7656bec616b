internal import FoundationEssentials
package import PersistentHistory
package import TidingsAMQP
internal import TidingsSQLite

/// Writes transactions as messages. Its buffers serve one after the other.
package struct HistoryMessageEncoder {
    private let source: String
    private let user: String?
    private let limit: Int
    private var writer = JSONWriter()

    /// - Parameters:
    ///   - names: tell the store's name.
    ///   - user: the broker's user on whose connection the messages go; nil where it is not known.
    ///   - limit: the most bytes that a body may have. Below 4 KiB is 4 KiB: a message without changes must fit.
    package init(names: BrokerNames, user: String?, limit: Int = 256 << 10) {
        source = "/tidings/\(names.store)"
        self.user = user
        self.limit = max(limit, 4096)
    }

    /// Writes a transaction: with its changes where that fits into the limit, else without (thin). Memory stays within
    /// about the limit, whatever the transaction's size.
    ///
    /// - Parameters:
    ///   - transaction: with all its changes; one of a request that filters changes is another transaction.
    ///   - previousNonce: the nonce of the transaction before; nil where it is not known.
    /// - Throws: ``HistoryError``: `tokenExpired` where a large transaction is purged meanwhile, `damagedHistory`.
    package mutating func encode(
        _ transaction: HistoryTransaction, previousNonce: UInt64?
    ) async throws -> (message: AMQPMessage, isThin: Bool) {
        let header = HistoryMessageHeader(transaction, previousNonce: previousNonce)
        writer.removeAll()
        writer.beginObject()
        writer.envelope(header, source: source)
        let envelope = writer.mark
        let isThin = try await !writeData(of: transaction)
        if isThin {
            writer.rewind(to: envelope)
            writer.key("omitted")
            writer.bool(true)
            writer.endObject()
        }
        return (AMQPMessage(writer.bytes, properties: properties(of: header)), isThin)
    }

    /// Writes what comes behind the envelope; false as soon as it does not fit.
    private mutating func writeData(of transaction: HistoryTransaction) async throws -> Bool {
        writer.key("datacontenttype")
        writer.string(MessageEnvelope.dataContentType)
        writer.key("data")
        writer.beginObject()
        writer.key("changes")
        writer.beginArray()
        for try await change in transaction.changes {
            writer.change(change.decoded())
            guard writer.bytes.count <= limit else { return false }
        }
        writer.endArray()
        let schemaChanges = try await transaction.schemaChanges()
        if !schemaChanges.isEmpty {
            writer.key("schema")
            writer.schemaChanges(schemaChanges)
        }
        writer.endObject()
        writer.endObject()
        return writer.bytes.count <= limit
    }

    private func properties(of header: HistoryMessageHeader) -> AMQPProperties {
        var properties = AMQPProperties(
            contentType: MessageEnvelope.contentType, messageID: MessageText.id(of: header.token))
        properties.type = MessageEnvelope.type
        properties.applicationID = MessageText.short(header.author)
        properties.userID = user
        properties.timestamp = UInt64(exactly: header.microseconds / 1_000_000)
        return properties
    }
}

extension HistoryMessageHeader {
    init(_ transaction: HistoryTransaction, previousNonce: UInt64?) {
        self.init(
            token: transaction.token, previousNonce: previousNonce, author: transaction.author,
            contextName: transaction.contextName, origin: transaction.origin.description,
            microseconds: transaction.microseconds, entities: transaction.entities,
            changeCount: transaction.changeCount, isOmitted: false)
    }
}

extension JSONWriter {
    /// Writes the members of a message's envelope, all but those that depend on its changes.
    mutating func envelope(_ header: HistoryMessageHeader, source: String) {
        member("specversion", MessageEnvelope.specificationVersion)
        member("id", MessageText.id(of: header.token))
        member("source", source)
        member("type", MessageEnvelope.type)
        member("time", RFC3339.string(microseconds: header.microseconds))
        member("store", header.token.storeID.uuidString.lowercased())
        member("epoch", String(header.token.epoch))
        member("sequence", MessageText.padded(header.token.sequence))
        member("nonce", header.token.nonceText)
        if let nonce = header.previousNonce { member("previousnonce", HistoryToken.nonceText(nonce)) }
        member("author", header.author)
        if let contextName = header.contextName { member("contextname", contextName) }
        member("origin", header.origin)
        member("entities", MessageText.list(header.entities))
        member("changecount", String(header.changeCount))
    }

    private mutating func member(_ name: String, _ value: String) {
        key(name)
        string(value)
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
