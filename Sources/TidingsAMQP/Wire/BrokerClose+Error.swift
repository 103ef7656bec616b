extension BrokerClose {
    /// The close as an error, with the queue or exchange and the argument at fault taken out of RabbitMQ's words.
    ///
    /// [Reply codes](https://www.rabbitmq.com/amqp-0-9-1-reference.html#constants)
    func error(while action: String) -> AMQPError {
        let subject = quoted(after: "queue '") ?? quoted(after: "exchange '")
        let argument = quoted(after: "inequivalent arg '")
        return AMQPError(
            kind, "\(action): \(text)\(remedy(argument: argument))", replyCode: code, subject: subject,
            argument: argument)
    }

    private var kind: AMQPError.Code {
        switch code {
        case 403: .accessRefused
        case 404: .notFound
        case 405: .resourceLocked
        case 406: .preconditionFailed
        case 501, 502, 503, 504, 505: .protocolViolation
        default: .closedByBroker
        }
    }

    private func remedy(argument: String?) -> String {
        switch code {
        case 403: "; give the permission (rabbitmqctl set_permissions, set_topic_permissions)"
        case 404: "; declare it first"
        case 405: "; another connection has it exclusively"
        case 406 where argument != nil: "; delete it or take another name, or declare it as it is"
        default: ""
        }
    }

    /// What stands in quotes behind some words.
    private func quoted(after words: String) -> String? {
        var rest = text[...]
        while !rest.isEmpty {
            if rest.hasPrefix(words) {
                return String(rest.dropFirst(words.count).prefix { $0 != "'" })
            }
            rest = rest.dropFirst()
        }
        return nil
    }
}
