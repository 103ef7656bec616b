/// The properties of a message. What is nil is not sent.
///
/// [AMQP 0-9-1 reference, basic class](https://www.rabbitmq.com/amqp-0-9-1-reference.html#class.basic). Text properties
/// are at most 255 bytes of UTF-8.
public struct AMQPProperties: Sendable, Hashable {
    /// The body's media type.
    public var contentType: String?
    /// The body's encoding, as in HTTP.
    public var contentEncoding: String?
    /// Further headers; all of a message's properties together fit into one frame.
    public var headers: AMQPTable
    /// True where the broker keeps the message through a restart (in a durable queue).
    public var isPersistent: Bool
    /// From 0, the least, to 9; for queues that were declared with priorities.
    public var priority: UInt8?
    /// Names the request that a reply belongs to.
    public var correlationID: String?
    /// The queue, or key, that replies go to.
    public var replyTo: String?
    /// After how many milliseconds in a queue the broker may drop the message.
    public var expiration: String?
    /// The message's identity, for those who see it twice.
    public var messageID: String?
    /// Seconds since 1970.
    public var timestamp: UInt64?
    /// What kind of message it is, to the program.
    public var type: String?
    /// The user that published it; the broker refuses the message (406) where this is another than the connection's.
    public var userID: String?
    /// The program that published it.
    public var applicationID: String?

    /// Makes properties; all but what is given is absent, and the message is persistent.
    public init(
        contentType: String? = nil, messageID: String? = nil, headers: AMQPTable = [:], isPersistent: Bool = true
    ) {
        self.contentType = contentType
        self.messageID = messageID
        self.headers = headers
        self.isPersistent = isPersistent
    }
}

/// A message to publish, or that was delivered.
public struct AMQPMessage: Sendable, Hashable {
    /// The body.
    public var body: [UInt8]
    /// The properties.
    public var properties: AMQPProperties

    /// Makes a message.
    public init(_ body: [UInt8], properties: AMQPProperties = AMQPProperties()) {
        self.body = body
        self.properties = properties
    }

    /// Makes a message of text.
    public init(_ text: String, properties: AMQPProperties = AMQPProperties()) {
        self.init(Array(text.utf8), properties: properties)
    }
}

/// Where a message is published to.
public struct AMQPAddress: Sendable, Hashable {
    /// The exchange; empty is the default exchange, which leads to the queue that the key names.
    public var exchange: String
    /// The routing key.
    public var routingKey: String

    /// Makes an address. Both are at most 255 bytes of UTF-8.
    public init(exchange: String, routingKey: String) {
        self.exchange = exchange
        self.routingKey = routingKey
    }

    /// The address of one queue, by the default exchange.
    public static func queue(_ name: String) -> AMQPAddress { AMQPAddress(exchange: "", routingKey: name) }
}

/// What became of a published message.
public enum PublishResult: Sendable, Hashable {
    /// The broker has taken responsibility: every queue that it went to has it, on disk where it is persistent.
    case confirmed
    /// The broker refused it, for want of room or by an internal error. It may be sent again.
    case nacked
    /// No queue wanted it. (Nothing is wrong with the connection, and the broker keeps no copy.)
    case returned(code: UInt16, text: String)
    /// The connection or channel ended, or the wait was given up, before the broker answered: it may have the message
    /// or not. To be sent again, under the same message id.
    indirect case unknown(AMQPError)
}
