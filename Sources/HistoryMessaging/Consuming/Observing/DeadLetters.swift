internal import PersistentHistory
internal import TidingsAMQP

/// Hands messages that nobody can use to the bounded queue of dead messages, with the reason, and acks them.
actor DeadLetters {
    private let link: BrokerLink
    private let options: HistoryConsumer.Options
    private let board: ConsumerBoard
    private var publisher: AMQPPublisher?

    private static let attempts = 3
    /// The most bytes of a body that are kept: enough to see what it was.
    private static let bodyLimit = 256 << 10
    /// The most characters of a key or reason.
    private static let textLimit = 1000

    init(_ link: BrokerLink, _ options: HistoryConsumer.Options, _ board: ConsumerBoard) {
        self.link = link
        self.options = options
        self.board = board
    }

    /// Publishes a message to the dead ones, then acks it. Where that cannot be done it is acked all the same, and
    /// logged: it was a hint, and must not come for ever.
    func take(_ delivery: AMQPDelivery, reason: String) async {
        options.log(
            .warning, "a message was refused: \(reason)",
            [("exchange", delivery.address.exchange), ("key", delivery.address.routingKey)])
        let address = AMQPAddress(exchange: link.names.dead, routingKey: delivery.address.routingKey)
        let message = Self.message(delivery, reason: reason)
        for _ in 0..<Self.attempts {
            do {
                let publisher = await publisher()
                switch try await publisher.publish(message, to: address) {
                case .confirmed, .returned:
                    delivery.ack()
                    return
                case .nacked, .unknown: continue
                }
            } catch {
                // Closed, or cancelled: the broker keeps it. Or it can never be sent.
                guard let error = error as? AMQPError, error.code == .invalid else { return }
                break
            }
        }
        options.log(.error, "a refused message could not be kept among the dead ones, and is dropped")
        delivery.ack()
    }

    private func publisher() async -> AMQPPublisher {
        if let publisher { return publisher }
        let new = await link.publishing.publisher(window: .init(messages: 10))
        publisher = new
        return new
    }

    private static func message(_ delivery: AMQPDelivery, reason: String) -> AMQPMessage {
        // None of the sender's properties but those that are plain text: its user id would be refused as forged.
        var properties = AMQPProperties(
            contentType: delivery.message.properties.contentType, messageID: delivery.message.properties.messageID)
        properties.applicationID = delivery.message.properties.applicationID
        properties.headers = [
            "tidings-reason": .string(String(reason.prefix(textLimit))),
            "tidings-exchange": .string(delivery.address.exchange),
            "tidings-key": .string(delivery.address.routingKey),
        ]
        if let user = delivery.message.properties.userID { properties.headers["tidings-user"] = .string(user) }
        let body = delivery.message.body
        if body.count > bodyLimit { properties.headers["tidings-size"] = .integer(Int64(body.count)) }
        return AMQPMessage(body.count > bodyLimit ? Array(body.prefix(bodyLimit)) : body, properties: properties)
    }
}
