internal import FoundationEssentials
public import PersistentHistory
public import TidingsAMQP

/// A consumer's word that it has merged everything up to a token:
/// `{"store": …, "epoch": 1, "sequence": 42, "nonce": …, "consumer": "search", "author": "orders"}`.
public struct AcknowledgementMessage: Sendable, Hashable {
    /// Who has merged.
    public let consumer: String
    /// On whose behalf.
    public let author: String
    /// Up to where.
    public let token: HistoryToken

    /// The AMQP type of an acknowledgement.
    static let type = "tidings.acknowledgement.v1"

    /// Makes an acknowledgement.
    public init(consumer: String, author: String, token: HistoryToken) {
        self.consumer = consumer
        self.author = author
        self.token = token
    }

    /// Reads the body of a message.
    ///
    /// Throws `malformedMessage`, naming what is wrong and at which byte. Members that it does not know are skipped.
    public init(decoding body: [UInt8]) throws(MessagingError) {
        var reader = JSONReader(body, subject: "acknowledgement")
        var names = MemberNames()
        var token = TokenParts()
        var consumer: String?
        var author: String?
        try reader.beginObject("the acknowledgement")
        while let name = try reader.nextMember(&names) {
            switch name {
            case "store": token.storeID = try reader.storeID().id
            case "epoch": token.epoch = try reader.integer("epoch")
            case "sequence": token.sequence = try reader.integer("sequence")
            case "nonce": token.nonce = try reader.nonce()
            case "consumer": consumer = try reader.string("consumer")
            case "author": author = try reader.string("author")
            default: try reader.skip()
            }
        }
        try reader.end()
        guard let consumer, !consumer.isEmpty else { throw reader.malformed("'consumer' is missing or empty") }
        guard let author, !author.isEmpty else { throw reader.malformed("'author' is missing or empty") }
        self.init(consumer: consumer, author: author, token: try token.token(reader))
    }

    /// The message: persistent, its id `<consumer>:<token>`.
    ///
    /// - Parameter user: the broker's user on whose connection it goes; the cleaner refuses acknowledgements without.
    public func message(user: String?) -> AMQPMessage {
        var writer = JSONWriter()
        writer.object { writer in
            writer.key("store")
            writer.string(token.storeID.uuidString.lowercased())
            writer.key("epoch")
            writer.integer(token.epoch)
            writer.key("sequence")
            writer.integer(token.sequence)
            writer.key("nonce")
            writer.string(token.nonceText)
            writer.key("consumer")
            writer.string(consumer)
            writer.key("author")
            writer.string(author)
        }
        var properties = AMQPProperties(
            contentType: ControlRequest.contentType, messageID: MessageText.short("\(consumer):\(token)"))
        properties.type = Self.type
        properties.userID = user
        properties.applicationID = MessageText.short(author)
        return AMQPMessage(writer.bytes, properties: properties)
    }
}
