extension BrokerClose {
    /// The close as an error, with the queue or exchange and the argument at fault taken out of RabbitMQ's words.
    ///
    /// [Reply codes](https://www.rabbitmq.com/amqp-0-9-1-reference.html#constants)
    func error(while action: String) -> AMQPError {
        let argument = quoted(after: "inequivalent arg '", before: "' for ")
        return AMQPError(
            kind, "\(action): \(text)\(remedy(argument: argument))", replyCode: code, subject: subject,
            argument: argument)
    }

    private var kind: AMQPError.Code {
        switch code {
        // Not a matter of permissions, and over when the other consumer goes.
        case 403 where isInExclusiveUse: .resourceLocked
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
        case 403 where isInExclusiveUse: "; another consumer has it exclusively"
        case 403 where text.contains("refused for user"):
            "; give the permission (rabbitmqctl set_permissions, set_topic_permissions)"
        case 404: "; declare it first"
        case 405: "; another connection has it exclusively"
        case 406 where argument != nil: "; delete it or take another name, or declare it as it is"
        default: ""
        }
    }

    private var isInExclusiveUse: Bool { text.hasSuffix("in exclusive use") }

    private var subject: String? {
        for kind in ["queue", "exchange"] {
            let name =
                quoted(after: "\(kind) '", before: "' in vhost '") ?? quoted(after: "\(kind) '", before: "'")
                ?? quoted(after: "\(kind) name '", before: "' contains ")
            if let name { return name }
        }
        return nil
    }

    /// What stands between some words. Nil also where the broker has cut its text off before the end: at 255 bytes.
    ///
    /// By bytes, since a name may begin with what makes one character with the quote before it.
    private func quoted(after words: String, before end: String) -> String? {
        guard let start = text.utf8.firstRange(of: words.utf8)?.upperBound else { return nil }
        let rest = text.utf8[start...]
        return rest.firstRange(of: end.utf8).flatMap { String(rest[..<$0.lowerBound]) }
    }
}
