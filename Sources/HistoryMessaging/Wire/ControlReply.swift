internal import PersistentHistory
public import TidingsAMQP

/// What a service answers: `{"ok": true, "service": "cleaner", "code": null, "message": "…", "remedy": null, …}`.
public struct ControlReply: Sendable, Hashable {
    /// True where the command was carried out.
    public var isOK: Bool
    /// Which service answers.
    public var service: String
    /// The kind of failure, as errors name it.
    public var code: String?
    /// What was done, or what went wrong.
    public var message: String
    /// What helps.
    public var remedy: String?
    /// What else there is to say, by name. The names of the other members are not written.
    public var fields: [String: ControlValue]

    /// The AMQP type of a reply.
    static let type = "tidings.control.reply.v1"
    private static let members: Set<String> = ["ok", "service", "code", "message", "remedy"]

    /// Makes a reply.
    public init(
        isOK: Bool, service: String, code: String? = nil, message: String, remedy: String? = nil,
        fields: [String: ControlValue] = [:]
    ) {
        self.isOK = isOK
        self.service = service
        self.code = code
        self.message = message
        self.remedy = remedy
        self.fields = fields
    }

    /// Reads the body of a message.
    ///
    /// Throws `malformedMessage`, naming what is wrong and at which byte.
    public init(decoding body: [UInt8]) throws(MessagingError) {
        var reader = JSONReader(body, subject: "reply")
        var names = MemberNames()
        var isOK: Bool?
        var texts: [String: String] = [:]
        var fields: [String: ControlValue] = [:]
        try reader.beginObject("the reply")
        while let name = try reader.nextMember(&names) {
            switch name {
            case "ok": isOK = try reader.bool("ok")
            case "service", "message": texts[name] = try reader.string("a reply's service or message")
            case "code", "remedy":
                if try !reader.null() { texts[name] = try reader.string("a reply's code or remedy") }
            default: fields[name] = try reader.controlValue("a field")
            }
        }
        try reader.end()
        guard let isOK else { throw reader.malformed("'ok' is missing") }
        guard let service = texts["service"] else { throw reader.malformed("'service' is missing") }
        guard let message = texts["message"] else { throw reader.malformed("'message' is missing") }
        self.init(
            isOK: isOK, service: service, code: texts["code"], message: message, remedy: texts["remedy"],
            fields: fields)
    }

    /// The message that answers a request: under its correlation id, or where it has none under its message id.
    public func message(answering request: AMQPMessage) -> AMQPMessage {
        var writer = JSONWriter()
        writer.object { writer in
            writer.key("ok")
            writer.bool(isOK)
            writer.key("service")
            writer.string(service)
            writer.key("code")
            writer.string(code)
            writer.key("message")
            writer.string(message)
            writer.key("remedy")
            writer.string(remedy)
            writer.members(fields.filter { !Self.members.contains($0.key) })
        }
        var properties = AMQPProperties(contentType: ControlRequest.contentType)
        properties.type = Self.type
        properties.correlationID = request.properties.correlationID ?? request.properties.messageID
        return AMQPMessage(writer.bytes, properties: properties)
    }
}
