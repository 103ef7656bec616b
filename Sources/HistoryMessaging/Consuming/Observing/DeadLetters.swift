internal import PersistentHistory
internal import TidingsAMQP

/// Hands messages that nobody can use to the bounded queue of dead messages, with the reason, and acks them.
///
/// By a task of its own: while the broker takes nothing, under an alarm say, all other deliveries go on. What waits is
/// bounded; what finds no place stays with the broker, and comes again when there is one.
final class DeadLetters: Sendable {
    private struct Letter {
        let receipt: AMQPDelivery
        let message: AMQPMessage
    }

    private struct State {
        var letters: [Letter] = []
        /// Without bodies: given back one by one as letters are sent.
        var held: [AMQPDelivery] = []
    }

    private let link: BrokerLink
    private let options: HistoryConsumer.Options
    private let board: ConsumerBoard
    private let state = Locked(State())
    private let wakeup = Wakeup()

    private static let attempts = 3
    /// The most letters that wait to be sent: two megabytes of bodies.
    private static let mostLetters = 32
    /// The most bytes of a body that are kept: enough to see what it was.
    private static let bodyLimit = 64 << 10
    /// The most characters of a text.
    private static let textLimit = 1000

    init(_ link: BrokerLink, _ options: HistoryConsumer.Options, _ board: ConsumerBoard) {
        self.link = link
        self.options = options
        self.board = board
    }

    /// Takes a message over. Waits for nothing.
    func take(_ delivery: AMQPDelivery, _ refusal: DeliveryRefusal) {
        let letter = Letter(receipt: delivery.receipt, message: message(delivery, refusal))
        // Half of what may be unsettled is left to the others.
        let mostHeld = Int(options.prefetch) / 2
        let (isTaken, isHeld) = state.withLock { state in
            if state.letters.count < Self.mostLetters {
                state.letters.append(letter)
                return (true, false)
            }
            guard state.held.count < mostHeld else { return (false, false) }
            state.held.append(letter.receipt)
            return (false, true)
        }
        guard isTaken else {
            if !isHeld { delivery.reject(requeue: true) }
            return
        }
        board.count { $0.dead += 1 }
        options.log(
            .warning, "a message was refused: \(refusal.detail)",
            [
                ("reason", refusal.reason.rawValue), ("exchange", delivery.address.exchange),
                ("key", delivery.address.routingKey),
            ])
        wakeup.signal()
    }

    /// Sends what was taken, until it is cancelled or the connection is closed.
    func run() async {
        guard await link.declareExchanges(options) else { return }
        let publisher = await link.publishing.publisher(window: .init(messages: 10))
        while !Task.isCancelled {
            guard let letter = state.withLock({ $0.letters.first }) else {
                await wakeup.wait()
                continue
            }
            guard await send(letter, publisher) else { return }
            let next = state.withLock { state in
                state.letters.removeFirst()
                return state.held.isEmpty ? nil : state.held.removeFirst()
            }
            next?.reject(requeue: true)
        }
    }

    /// Publishes a message to the dead ones, then acks it. Where that cannot be done it is acked all the same, and
    /// logged: it was a hint, and must not come for ever.
    ///
    /// - Returns: false where nothing can be sent any more; the broker keeps what is not acked.
    private func send(_ letter: Letter, _ publisher: AMQPPublisher) async -> Bool {
        let address = AMQPAddress(exchange: link.names.dead, routingKey: letter.receipt.address.routingKey)
        for _ in 0..<Self.attempts {
            var result: PublishResult?
            // Its channel could not be opened, say: that is no answer of the broker's, and the letter waits.
            let goesOn = await link.insist("sending a refused message to the dead ones", options) {
                do {
                    try options.onDeadLetter?()
                    result = try await publisher.publish(letter.message, to: address)
                } catch let error as AMQPError where error.code == .invalid {
                    // It can never be sent.
                }
            }
            guard goesOn else { return false }
            guard let result else { break }
            switch result {
            case .confirmed, .returned:
                letter.receipt.ack()
                return true
            case .nacked, .unknown: continue
            }
        }
        options.log(.error, "a refused message could not be kept among the dead ones, and is dropped")
        letter.receipt.ack()
        return true
    }

    /// What the cleaner's refused messages look like too.
    private func message(_ delivery: AMQPDelivery, _ refusal: DeliveryRefusal) -> AMQPMessage {
        // None of the sender's properties but those that are plain text: its user id would be refused as forged.
        let original = delivery.message.properties
        var properties = AMQPProperties(contentType: original.contentType, messageID: original.messageID)
        properties.applicationID = original.applicationID
        properties.type = original.type
        properties.timestamp = original.timestamp
        properties.userID = link.user
        properties.headers = [
            "tidings-reason": .string(refusal.reason.rawValue),
            "tidings-detail": .string(String(refusal.detail.prefix(Self.textLimit))),
            "tidings-exchange": .string(delivery.address.exchange),
            "tidings-key": .string(delivery.address.routingKey),
            "tidings-service": "consumer",
        ]
        if let user = original.userID { properties.headers["tidings-user"] = .string(user) }
        let body = delivery.message.body
        guard body.count > Self.bodyLimit else { return AMQPMessage(body, properties: properties) }
        properties.headers["tidings-size"] = .integer(Int64(body.count))
        return AMQPMessage(Array(body.prefix(Self.bodyLimit)), properties: properties)
    }
}

/// Why a delivery is of no use to a consumer.
struct DeliveryRefusal: Sendable, Hashable, Error {
    /// The kind of reason, as it appears in headers and logs.
    enum Reason: String, Sendable, Hashable {
        /// It came by another exchange, or straight into the queue.
        case foreignExchange
        /// It is of a version that this one does not know.
        case foreignVersion
        /// It is of another store.
        case foreignStore
        /// It cannot be read.
        case malformed
    }

    let reason: Reason
    /// What is wrong, in words.
    let detail: String

    init(_ reason: Reason, _ detail: String) {
        self.reason = reason
        self.detail = detail
    }

    /// The reason for which a body could not be read.
    init(_ error: MessagingError) {
        self.init(error.code == .foreignVersion ? .foreignVersion : .malformed, error.message)
    }
}
