internal import PersistentHistory
internal import TidingsAMQP

/// What a message to the cleaner must be before the store is asked about it. Pure.
struct IncomingChecks: Sendable {
    let names: BrokerNames
    /// The broker's users who may give a command, by its name.
    var commandUsers: [String: Set<String>] = [:]

    /// What nobody may do who is not named: it deletes history.
    private static let closedCommands: Set = ["clean"]

    /// The longest body: acknowledgements and commands have a few hundred bytes.
    static let longestBody = 64 << 10

    /// Reads an acknowledgement.
    func acknowledgement(
        _ message: AMQPMessage, _ address: AMQPAddress
    ) throws(MessageRefusal) -> Acknowledgement {
        let user = try sender(of: message, address, by: names.acknowledgements)
        try checkForm(message, version: AcknowledgementMessage.type)
        let content: AcknowledgementMessage
        do {
            content = try AcknowledgementMessage(decoding: message.body)
        } catch {
            throw MessageRefusal(.malformed, error.message)
        }
        guard address.routingKey == names.acknowledgementKey(consumer: content.consumer) else {
            throw MessageRefusal(
                .otherKey, "the acknowledgement was not sent under its consumer's key", consumer: content.consumer)
        }
        return Acknowledgement(consumer: content.consumer, token: content.token, sender: .user(user))
    }

    /// Reads a command, and who gives it.
    func command(
        _ message: AMQPMessage, _ address: AMQPAddress
    ) throws(MessageRefusal) -> (request: ControlRequest, user: String) {
        let user = try sender(of: message, address, by: names.control)
        try checkForm(message, version: ControlRequest.type)
        let request: ControlRequest
        do {
            request = try ControlRequest(decoding: message.body)
        } catch {
            throw MessageRefusal(.malformed, error.message)
        }
        // The broker lets users send under some keys only.
        let keys = ["cleaner", "all"].map { names.controlKey(service: $0, command: request.command) }
        guard keys.contains(address.routingKey) else {
            throw MessageRefusal(.otherKey, "the command was not sent under its own key")
        }
        guard mayGive(request.command, user) else {
            throw MessageRefusal(
                .notAllowed,
                "the user may not give this command: add them to its list of users (cleaner.commandUsers)")
        }
        return (request, user)
    }

    private func mayGive(_ command: String, _ user: String) -> Bool {
        commandUsers[command]?.contains(user) ?? !Self.closedCommands.contains(command)
    }

    /// The user that the broker vouches for, where the message came by the exchange that it checks keys on.
    private func sender(
        of message: AMQPMessage, _ address: AMQPAddress, by exchange: String
    ) throws(MessageRefusal) -> String {
        guard address.exchange == exchange else {
            throw MessageRefusal(.foreignExchange, "the message did not come by the exchange \(exchange)")
        }
        guard let user = message.properties.userID, !user.isEmpty else {
            throw MessageRefusal(
                .noUser,
                "the message has no user_id: set it to the connection's user (broker.user, where a certificate logs in)"
            )
        }
        return user
    }

    private func checkForm(_ message: AMQPMessage, version: String) throws(MessageRefusal) {
        guard message.body.count <= Self.longestBody else {
            throw MessageRefusal(.oversized, "the message has \(message.body.count) bytes, at most \(Self.longestBody)")
        }
        // Programs that do not set the type speak the version of this one.
        guard let type = message.properties.type, type != version else { return }
        throw MessageRefusal(.foreignVersion, "the message is of the type \(type.prefix(80)), not \(version)")
    }
}
