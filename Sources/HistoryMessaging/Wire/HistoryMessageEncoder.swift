internal import FoundationEssentials
package import PersistentHistory
package import TidingsAMQP

/// Writes transactions as messages. Its buffers serve one after the other.
package struct HistoryMessageEncoder {
    /// What a message without changes may need, in bytes.
    static let leastLimit = 4096

    private let source: String
    private let user: String?
    private let limit: Int
    private var changes: ChangeWriter
    /// The store that the latest transaction was of, and its UUID as text.
    private var store: (id: UUID, text: String)?

    /// - Parameters:
    ///   - names: tell the store's name.
    ///   - user: the broker's user on whose connection the messages go; nil where it is not known.
    ///   - limit: the most bytes that a body may have. Below 4 KiB is 4 KiB: a message without changes must fit.
    package init(names: BrokerNames, user: String?, limit: Int = 256 << 10) {
        source = "/tidings/\(names.store)"
        self.user = user
        self.limit = max(limit, Self.leastLimit)
        changes = ChangeWriter(limit: self.limit)
    }

    /// Writes a transaction: with its changes where that fits into the limit, else without (thin).
    ///
    /// No more of the transaction is read than fits, and memory stays within a few times the limit, whatever its size.
    ///
    /// - Parameters:
    ///   - transaction: with all its changes; one of a request that filters changes is another transaction.
    ///   - previousNonce: the nonce of the transaction before; nil where it is not known.
    /// - Throws: ``HistoryError``: `tokenExpired` where a large transaction is purged meanwhile, `damagedHistory`.
    ///   ``MessagingError`` `invalid` where not even what the transaction says of its origin fits.
    package mutating func encode(
        _ transaction: HistoryTransaction, previousNonce: UInt64?
    ) async throws -> (message: AMQPMessage, isThin: Bool) {
        let header = HistoryMessageHeader(transaction, previousNonce: previousNonce)
        let identity = identity(of: header.token)
        var isThin = try !writeEnvelope(header, identity)
        let envelope = changes.json.mark
        if !isThin { isThin = try await !writeData(of: transaction) }
        if isThin {
            changes.json.rewind(to: envelope)
            changes.json.omission()
        }
        // A copy of its own size: else the message would keep the buffer, and that could not be used again.
        let body = changes.json.bytes.withUnsafeBufferPointer { Array($0) }
        return (AMQPMessage(body, properties: properties(of: header, identity)), isThin)
    }

    /// The thin message of the same transaction, under the same identity; nil where it is one already.
    ///
    /// - Parameter message: as this encoder, or one like it, has written it.
    /// - Throws: ``MessagingError`` `invalid` where not even what the transaction says of its origin fits.
    package mutating func thin(of message: AMQPMessage) throws -> AMQPMessage? {
        let header = try HistoryMessageHeader(decoding: message.body)
        guard !header.isOmitted else { return nil }
        _ = try writeEnvelope(header, identity(of: header.token))
        changes.json.omission()
        let body = changes.json.bytes.withUnsafeBufferPointer { Array($0) }
        return AMQPMessage(body, properties: message.properties)
    }

    private mutating func identity(of token: HistoryToken) -> MessageIdentity {
        if let store, store.id == token.storeID { return MessageIdentity(token, store: store.text) }
        let identity = MessageIdentity(token)
        store = (token.storeID, identity.store)
        return identity
    }

    /// Writes the envelope; false where it fits only with parts of it left out, and then the message must be thin.
    private mutating func writeEnvelope(_ header: HistoryMessageHeader, _ identity: MessageIdentity) throws -> Bool {
        for omitted in 0..<3 {
            changes.json.removeAll()
            changes.json.beginObject()
            changes.json.envelope(
                header, identity, contextName: omitted < 2 ? header.contextName : nil,
                entities: omitted < 1 ? header.entities : [], source: source)
            if changes.json.bytes.count + JSONWriter.omissionLength <= limit { return omitted == 0 }
        }
        throw MessagingError(
            .invalid,
            "transaction \(header.token.sequence) has an origin of \(header.origin.utf8.count) bytes, and a message has "
                + "room for \(limit): name the process shorter, or raise the limit")
    }

    /// Writes what comes behind the envelope; false as soon as it does not fit.
    private mutating func writeData(of transaction: HistoryTransaction) async throws -> Bool {
        changes.json.member("datacontenttype", MessageEnvelope.dataContentType)
        changes.json.key("data")
        changes.json.beginObject()
        changes.json.key("changes")
        changes.json.beginArray()
        guard try await writeChanges(of: transaction) else { return false }
        changes.json.endArray()
        let schemaChanges = try await transaction.schemaChanges()
        if !schemaChanges.isEmpty {
            changes.json.key("schema")
            changes.json.schemaChanges(schemaChanges)
        }
        changes.json.endObject()
        changes.json.endObject()
        return changes.json.bytes.count <= limit
    }

    private mutating func writeChanges(of transaction: HistoryTransaction) async throws -> Bool {
        guard transaction.changes.isInMemory else {
            for try await change in transaction.changes {
                guard try changes.write(change) else { return false }
            }
            return true
        }
        struct Full: Error {}
        do {
            try transaction.changes.decode { change in
                guard try changes.write(change) else { throw Full() }
            }
            return true
        } catch is Full {
            return false
        }
    }

    /// The bytes that the buffer has room for.
    var capacity: Int { changes.json.capacity }

    private func properties(of header: HistoryMessageHeader, _ identity: MessageIdentity) -> AMQPProperties {
        var properties = AMQPProperties(contentType: MessageEnvelope.contentType, messageID: identity.message)
        properties.type = MessageEnvelope.type
        properties.applicationID = MessageText.short(header.author)
        properties.userID = user
        properties.timestamp = UInt64(exactly: header.microseconds / 1_000_000)
        return properties
    }
}

/// How a transaction and its store are named in messages.
struct MessageIdentity {
    /// The store's UUID.
    let store: String
    /// The id of the transaction's message: `<store>:<epoch>:<sequence>`, the same however often it is sent.
    let message: String

    init(_ token: HistoryToken, store: String? = nil) {
        self.store = store ?? token.storeID.uuidString.lowercased()
        message = "\(self.store):\(token.epoch):\(token.sequence)"
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
