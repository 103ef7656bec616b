internal import PersistentHistory
public import TidingsAMQP

/// A command to services: `{"command": "register", "arguments": {"consumer": "search"}}`.
public struct ControlRequest: Sendable, Hashable {
    /// What to do.
    public var command: String
    /// With what.
    public var arguments: [String: ControlValue]

    /// The media type of commands and replies.
    static let contentType = "application/json"
    /// The AMQP type of a command.
    static let type = "tidings.control.request.v1"

    /// Makes a command.
    public init(_ command: String, arguments: [String: ControlValue] = [:]) {
        self.command = command
        self.arguments = arguments
    }

    /// Reads the body of a message.
    ///
    /// Throws `malformedMessage`, naming what is wrong and at which byte. Members that it does not know are skipped.
    public init(decoding body: [UInt8]) throws(MessagingError) {
        var reader = JSONReader(body, subject: "command")
        var names = MemberNames()
        var command: String?
        var arguments: [String: ControlValue] = [:]
        try reader.beginObject("the command")
        while let name = try reader.nextMember(&names) {
            switch name {
            case "command": command = try reader.string("command")
            case "arguments": arguments = try Self.arguments(&reader)
            default: try reader.skip()
            }
        }
        try reader.end()
        guard let command, !command.isEmpty else { throw reader.malformed("'command' is missing or empty") }
        self.init(command, arguments: arguments)
    }

    private static func arguments(_ reader: inout JSONReader) throws(MessagingError) -> [String: ControlValue] {
        var arguments: [String: ControlValue] = [:]
        var names = MemberNames()
        try reader.beginObject("arguments")
        while let name = try reader.nextMember(&names) { arguments[name] = try reader.controlValue("an argument") }
        return arguments
    }

    /// The message; whoever sends it adds where replies go to, and a message id of its own where it may send it twice.
    ///
    /// - Parameter user: the broker's user on whose connection it goes; services refuse commands without.
    public func message(user: String?) -> AMQPMessage {
        var writer = JSONWriter()
        writer.object { writer in
            writer.key("command")
            writer.string(command)
            writer.key("arguments")
            writer.object { $0.members(arguments) }
        }
        var properties = AMQPProperties(contentType: Self.contentType)
        properties.type = Self.type
        properties.userID = user
        return AMQPMessage(writer.bytes, properties: properties)
    }
}
