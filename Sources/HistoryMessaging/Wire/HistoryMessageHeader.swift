public import PersistentHistory
internal import TidingsSQLite

/// What a history message says of its transaction besides the changes: its envelope.
public struct HistoryMessageHeader: Sendable, Hashable {
    /// The transaction's place in the history.
    public let token: HistoryToken
    /// The nonce of the transaction before it, which proves that nothing lies between the two; nil where the publisher
    /// could not tell.
    public let previousNonce: UInt64?
    /// Who wrote.
    public let author: String
    /// Which part of the author wrote, where it said so.
    public let contextName: String?
    /// The process and instance that wrote, as ``HistoryOrigin`` describes them.
    public let origin: String
    /// The writer's clock at the commit, in microseconds since 1970. For people: it orders nothing.
    public let microseconds: Int64
    /// The entities touched, in order of first appearance; empty where there are too many to tell.
    public let entities: [String]
    /// The number of changes of the transaction, also where they are omitted.
    public let changeCount: Int
    /// True where the changes are not in the message, for their size: they are to be read from the store.
    public let isOmitted: Bool

    /// Makes a header of its parts.
    package init(
        token: HistoryToken, previousNonce: UInt64?, author: String, contextName: String?, origin: String,
        microseconds: Int64, entities: [String], changeCount: Int, isOmitted: Bool
    ) {
        self.token = token
        self.previousNonce = previousNonce
        self.author = author
        self.contextName = contextName
        self.origin = origin
        self.microseconds = microseconds
        self.entities = entities
        self.changeCount = changeCount
        self.isOmitted = isOmitted
    }

    /// The header of the same transaction's thin message.
    package func omitting() -> HistoryMessageHeader {
        HistoryMessageHeader(
            token: token, previousNonce: previousNonce, author: author, contextName: contextName, origin: origin,
            microseconds: microseconds, entities: entities, changeCount: changeCount, isOmitted: true)
    }

    /// Reads the envelope of a message's body, and checks of the changes that they are JSON.
    ///
    /// Throws ``MessagingError``: `malformedMessage`, naming what is wrong and at which byte; `foreignVersion` where the
    /// message is one of another version of CloudEvents or of this format.
    public init(decoding body: [UInt8]) throws(MessagingError) {
        self = try MessageEnvelope(body).header()
    }
}
