import Testing

@testable import TidingsAMQP

struct MessageLimitsTests {
    private static let limits = MessageLimits(frameSize: 4096)

    private static func text(_ bytes: Int) -> String { String(repeating: "x", count: bytes) }

    private static func message(_ headers: AMQPTable) -> AMQPMessage {
        AMQPMessage("", properties: AMQPProperties(headers: headers))
    }

    private static func check(_ message: AMQPMessage, to address: AMQPAddress = .queue("q")) throws(AMQPError) {
        try limits.check(message, to: address)
    }

    private static let texts: [(String, @Sendable (inout AMQPProperties, String) -> Void)] = [
        ("content type", { $0.contentType = $1 }),
        ("content encoding", { $0.contentEncoding = $1 }),
        ("correlation id", { $0.correlationID = $1 }),
        ("reply-to", { $0.replyTo = $1 }),
        ("expiration", { $0.expiration = $1 }),
        ("message id", { $0.messageID = $1 }),
        ("type", { $0.type = $1 }),
        ("user id", { $0.userID = $1 }),
        ("application id", { $0.applicationID = $1 }),
    ]

    private static func tooLong(_ name: String) -> AMQPError {
        AMQPError(.invalid, "the \(name) is 256 bytes long, and AMQP takes 255: '\(text(40))…'")
    }

    @Test("A property's text is at most 255 bytes", arguments: texts)
    func properties(name: String, set: @Sendable (inout AMQPProperties, String) -> Void) throws {
        var message = AMQPMessage("")
        set(&message.properties, Self.text(255))
        try Self.check(message)
        set(&message.properties, Self.text(256))
        #expect(throws: Self.tooLong(name)) { try Self.check(message) }
    }

    @Test("Exchange and routing key are at most 255 bytes")
    func addresses() throws {
        let message = AMQPMessage("")
        try Self.check(message, to: AMQPAddress(exchange: Self.text(255), routingKey: Self.text(255)))
        #expect(throws: Self.tooLong("exchange")) {
            try Self.check(message, to: AMQPAddress(exchange: Self.text(256), routingKey: ""))
        }
        #expect(throws: Self.tooLong("routing key")) { try Self.check(message, to: .queue(Self.text(256))) }
    }

    @Test("Bytes count, not characters")
    func bytes() throws {
        try Self.check(AMQPMessage(""), to: .queue(String(repeating: "é", count: 127)))
        let key = String(repeating: "é", count: 128)
        let expected = AMQPError(
            .invalid, "the routing key is 256 bytes long, and AMQP takes 255: '\(key.prefix(40))…'")
        #expect(throws: expected) { try Self.check(AMQPMessage(""), to: .queue(key)) }
    }

    @Test("All texts at their longest fit into the least frame that there is")
    func allTexts() throws {
        var message = AMQPMessage("", properties: AMQPProperties(headers: ["a": 1]))
        for (_, set) in Self.texts { set(&message.properties, Self.text(255)) }
        try Self.check(message)
    }

    @Test("A header's name is at most 128 bytes, within tables too")
    func names() throws {
        let expected = AMQPError(.invalid, "a header's name is over 128 bytes: '\(Self.text(40))…'")
        let good = AMQPTable([.init(Self.text(128), 1)])
        let bad = AMQPTable([.init(Self.text(129), 1)])
        try Self.check(Self.message(good))
        try Self.check(Self.message(["t": .table(good), "a": .array([.table(good)])]))
        #expect(throws: expected) { try Self.check(Self.message(bad)) }
        #expect(throws: expected) { try Self.check(Self.message(["t": .table(bad)])) }
        #expect(throws: expected) { try Self.check(Self.message(["a": .array([1, .table(bad)])])) }
    }

    @Test(
        "The size of a value on the wire",
        arguments: [
            (AMQPValue.null, 0), (true, 1), (1, 8), (.unsigned(.max), 8), (.double(1), 8), (.timestamp(1), 8),
            (.decimal(value: 1, decimals: 2), 5), ("", 4), ("é", 6), (.bytes([1, 2, 3]), 7), (.array([]), 4),
            // Each with the byte that tells its type.
            (.array([1, "ab", .array([.null])]), 4 + 9 + 7 + 6), (.table([:]), 4), (.table(["ab": true]), 4 + 3 + 2),
        ] as [(AMQPValue, Int)])
    func sizes(value: AMQPValue, size: Int) throws {
        // The table's length, the name with its length, the type.
        #expect(try MessageLimits.size(["name": value], depth: 1) == 4 + 5 + 1 + size)
    }

    @Test("Headers fill a frame to the last byte, and no further")
    func frame() throws {
        // 64 for what else a header frame holds; then table, name, type and length of the text.
        let room = 4096 - 8 - 64 - 4 - 2 - 1 - 4
        try Self.check(Self.message(["h": .string(Self.text(room))]))
        let expected = AMQPError(
            .invalid,
            "the headers of a message to 'x' take 4089 bytes, and one frame has room for 4088: put the data into the body"
        )
        #expect(throws: expected) {
            try Self.check(
                Self.message(["h": .string(Self.text(room + 1))]), to: AMQPAddress(exchange: "x", routingKey: "k"))
        }
    }

    @Test("The other properties take their share of the frame")
    func share() {
        let room = 4096 - 8 - 64 - 4 - 2 - 1 - 4
        var message = Self.message(["h": .string(Self.text(room))])
        message.properties.messageID = ""
        #expect(throws: AMQPError.self) { try Self.check(message) }
    }

    private static func nested(_ levels: Int, in wrap: (AMQPValue) -> AMQPValue) -> AMQPValue {
        (0..<levels).reduce(AMQPValue.null) { value, _ in wrap(value) }
    }

    @Test("Tables are nested to the greatest depth, the headers themselves being the first level")
    func depth() throws {
        let deepest = AMQPTable.maximumDepth - 1
        let expected = AMQPError(.invalid, "header 'h' is nested deeper than 16 levels")
        for wrap in [{ .table(["h": $0]) }, { .array([$0]) }] as [(AMQPValue) -> AMQPValue] {
            try Self.check(Self.message(["h": Self.nested(deepest, in: wrap)]))
            #expect(throws: expected) { try Self.check(Self.message(["h": Self.nested(deepest + 1, in: wrap)])) }
        }
    }

    @Test("A value that could not be read cannot be sent, in a list neither")
    func unreadable() {
        let expected = AMQPError(.invalid, "header 'h' holds a value that could not be read, and so cannot be sent")
        #expect(throws: expected) { try Self.check(Self.message(["h": .unreadable])) }
        #expect(throws: expected) { try Self.check(Self.message(["h": .array([1, .unreadable])])) }
        #expect(throws: expected) { try Self.check(Self.message(["t": .table(["h": .unreadable])])) }
    }
}
