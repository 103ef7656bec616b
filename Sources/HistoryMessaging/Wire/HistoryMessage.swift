public import PersistentHistory

/// A transaction as a message carries it.
public struct HistoryMessage: Sendable, Hashable {
    /// The envelope.
    public let header: HistoryMessageHeader
    /// The changes in order of execution; nil where they are omitted for their size.
    public let changes: [DecodedChange]?
    /// What happened to tracked tables themselves, in order; none where the changes are omitted.
    public let schemaChanges: [HistorySchemaChange]

    /// Makes a message of its parts.
    package init(header: HistoryMessageHeader, changes: [DecodedChange]?, schemaChanges: [HistorySchemaChange]) {
        self.header = header
        self.changes = changes
        self.schemaChanges = schemaChanges
    }

    /// Reads a message's body: what comes out equals what was encoded.
    ///
    /// Time and memory are linear in the body's size, whatever it is. Members that it does not know are skipped.
    ///
    /// Throws ``MessagingError``: `malformedMessage`, naming what is wrong and at which byte; `foreignVersion` where the
    /// message is one of another version of CloudEvents or of this format.
    public init(decoding body: [UInt8]) throws(MessagingError) {
        let envelope = try MessageEnvelope(body)
        let header = try envelope.header()
        guard !header.isOmitted else {
            self.init(header: header, changes: nil, schemaChanges: [])
            return
        }
        var reader = try envelope.reader(at: .data)
        let data = try reader.transactionData()
        guard data.changes.count == header.changeCount else {
            throw envelope.malformed("'changecount' is not the number of changes", at: .changecount)
        }
        self.init(header: header, changes: data.changes, schemaChanges: data.schemaChanges)
    }
}
