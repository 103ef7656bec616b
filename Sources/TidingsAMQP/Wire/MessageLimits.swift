/// What a message must keep to, checked before the first byte of it is written: a publish that fails half way leaves
/// the broker waiting for the rest, and the connection useless.
struct MessageLimits {
    /// The largest frame agreed on, in bytes.
    var frameSize: Int

    /// Throws `invalid` where the message cannot be sent.
    func check(_ message: AMQPMessage, to address: AMQPAddress) throws(AMQPError) {
        try Self.checkShort("exchange", address.exchange)
        try Self.checkShort("routing key", address.routingKey)
        let properties = message.properties
        var size = 64
        size += try Self.size("content type", properties.contentType)
        size += try Self.size("content encoding", properties.contentEncoding)
        size += try Self.size("correlation id", properties.correlationID)
        size += try Self.size("reply-to", properties.replyTo)
        size += try Self.size("expiration", properties.expiration)
        size += try Self.size("message id", properties.messageID)
        size += try Self.size("type", properties.type)
        size += try Self.size("user id", properties.userID)
        size += try Self.size("application id", properties.applicationID)
        guard !properties.headers.isEmpty else { return }
        size += try Self.size(properties.headers, depth: 1)
        guard size <= frameSize - 8 else {
            throw AMQPError(
                .invalid,
                "the headers of a message to '\(address.exchange)' take \(size) bytes, and one frame has room for "
                    + "\(frameSize - 8): put the data into the body")
        }
    }

    /// Throws `invalid` where a table of arguments cannot be sent.
    static func checkTable(_ name: String, _ table: AMQPTable) throws(AMQPError) {
        // The least frame that RabbitMQ agrees on, and room for the rest of the method.
        guard try size(table, depth: 1) <= 7168 else { throw AMQPError(.invalid, "\(name) are over 7 KiB") }
    }

    private static func size(_ name: String, _ text: String?) throws(AMQPError) -> Int {
        guard let text else { return 0 }
        try checkShort(name, text)
        return text.utf8.count + 1
    }

    /// The size of a table on the wire.
    static func size(_ table: AMQPTable, depth: Int) throws(AMQPError) -> Int {
        var size = 4
        for entry in table.entries {
            guard entry.name.utf8.count <= 128 else {
                throw AMQPError(.invalid, "a header's name is over 128 bytes: '\(entry.name.prefix(40))…'")
            }
            size += 2 + entry.name.utf8.count + (try Self.size(entry.value, of: entry.name, depth: depth))
        }
        return size
    }

    private static func size(_ value: AMQPValue, of name: String, depth: Int) throws(AMQPError) -> Int {
        switch value {
        case .null: return 0
        case .bool: return 1
        case .integer, .unsigned, .double, .timestamp: return 8
        case .decimal: return 5
        case .string(let text): return 4 + text.utf8.count
        case .bytes(let bytes): return 4 + bytes.count
        case .unreadable:
            throw AMQPError(.invalid, "header '\(name)' holds a value that could not be read, and so cannot be sent")
        case .table, .array:
            guard depth < AMQPTable.maximumDepth else {
                throw AMQPError(.invalid, "header '\(name)' is nested deeper than \(AMQPTable.maximumDepth) levels")
            }
            if case .table(let table) = value { return try size(table, depth: depth + 1) }
            guard case .array(let values) = value else { return 0 }
            var total = 4
            for value in values { total += 1 + (try size(value, of: name, depth: depth + 1)) }
            return total
        }
    }

    /// Throws `invalid` where a text is too long for AMQP's short strings.
    static func checkShort(_ name: String, _ text: String) throws(AMQPError) {
        guard text.utf8.count <= 255 else {
            throw AMQPError(
                .invalid, "the \(name) is \(text.utf8.count) bytes long, and AMQP takes 255: '\(text.prefix(40))…'")
        }
    }
}
