internal import PersistentHistory
internal import TidingsAMQP

/// The messages that the cleaner sends by itself: what it refuses, to the dead ones, and what it announces.
struct CleanerMessages: Sendable {
    let names: BrokerNames
    /// The broker's user of the cleaner's.
    let user: String?
    let store: String

    /// The longest body that is kept with a refused message.
    private static let longestBody = 256 << 10

    /// A refused message for those who look into the dead ones: under its own key, with the reason in its headers. The
    /// sender's user is a header too, since the broker lets nobody send under another's name.
    func dead(_ message: AMQPMessage, _ address: AMQPAddress, _ refusal: MessageRefusal) -> AMQPPublication {
        var properties = AMQPProperties(
            contentType: message.properties.contentType, messageID: message.properties.messageID)
        properties.type = message.properties.type
        properties.timestamp = message.properties.timestamp
        properties.userID = user
        properties.headers = [
            "tidings-reason": .string(refusal.reason.rawValue), "tidings-detail": .string(refusal.message),
            "tidings-exchange": .string(address.exchange), "tidings-service": "cleaner",
        ]
        if let sender = message.properties.userID { properties.headers["tidings-user"] = .string(sender) }
        let isKept = message.body.count <= Self.longestBody
        if !isKept { properties.headers["tidings-size"] = .integer(Int64(message.body.count)) }
        return AMQPPublication(
            AMQPMessage(isKept ? message.body : [], properties: properties),
            to: AMQPAddress(exchange: names.dead, routingKey: address.routingKey))
    }

    /// What is announced of a new epoch.
    func announcement(ofEpoch epoch: Int64, _ reason: String) -> AMQPPublication {
        announcement("epoch-changed", ["epoch": .integer(epoch), "reason": .string(reason)])
    }

    /// What is announced of messages that were rejected unread.
    func announcement(ofOversized count: Int, in queue: String) -> AMQPPublication {
        announcement("oversized-messages", ["count": .integer(Int64(count)), "queue": .string(queue)])
    }

    /// What others may want to know: `{"event": …, "service": "cleaner", "store": …, …}`.
    private func announcement(_ event: String, _ fields: [String: ControlValue]) -> AMQPPublication {
        var writer = JSONWriter()
        writer.object { writer in
            writer.key("event")
            writer.string(event)
            writer.key("service")
            writer.string("cleaner")
            writer.key("store")
            writer.string(store)
            writer.members(fields)
        }
        var properties = AMQPProperties(contentType: "application/json")
        properties.type = "tidings.notify.v1"
        properties.userID = user
        return AMQPPublication(
            AMQPMessage(writer.bytes, properties: properties),
            to: AMQPAddress(exchange: names.notify, routingKey: names.notifyKey(event)), isMandatory: false)
    }

    /// What is announced of a refused message.
    func announcement(
        of refusal: MessageRefusal, _ event: String, _ message: AMQPMessage
    ) -> AMQPPublication {
        announcement(
            event,
            [
                "reason": .string(refusal.reason.rawValue),
                // Written by whoever sent it, whatever it says.
                "consumer": refusal.consumer.map { .string(String($0.prefix(128))) } ?? .null,
                "user": message.properties.userID.map { .string($0) } ?? .null,
            ])
    }
}
