import Testing

@testable import TidingsAMQP

struct FrameAssemblerTests {
    private static let delivery = FrameAssembler.Origin.delivery(tag: 7, isRedelivered: true, .queue("q"))
    private static let returned = FrameAssembler.Origin.returned(code: 312, text: "NO_ROUTE", .queue("nobody"))
    private static let properties = AMQPProperties(contentType: "text/plain", messageID: "1")

    private typealias Content = FrameAssembler.Content

    private static func header(
        _ assembler: inout FrameAssembler, _ size: UInt64, maximum: Int = 1000
    ) throws(AMQPError) -> Content? {
        try assembler.header(bodySize: size, properties, maximum: maximum)
    }

    private static func body(_ assembler: inout FrameAssembler, _ text: String) throws -> Content? {
        try Array(text.utf8).withUnsafeBytes { piece throws(AMQPError) in
            try assembler.body(piece)
        }
    }

    private static func content(_ origin: FrameAssembler.Origin, _ text: String) -> Content {
        Content(origin: origin, message: AMQPMessage(text, properties: properties))
    }

    private static func violation(_ what: String) -> AMQPError {
        AMQPError(.protocolViolation, "the broker sent \(what)")
    }

    @Test("A message without a body is whole with its header")
    func noBody() throws {
        var assembler = FrameAssembler()
        try assembler.begin(Self.returned)
        #expect(try Self.header(&assembler, 0) == Self.content(Self.returned, ""))
    }

    @Test("A body in one piece")
    func onePiece() throws {
        var assembler = FrameAssembler()
        try assembler.begin(Self.delivery)
        #expect(try Self.header(&assembler, 5) == nil)
        #expect(try Self.body(&assembler, "Hello") == Self.content(Self.delivery, "Hello"))
    }

    @Test("A body in many pieces, empty ones among them, is whole with the last")
    func manyPieces() throws {
        var assembler = FrameAssembler()
        try assembler.begin(Self.delivery)
        #expect(try Self.header(&assembler, 10) == nil)
        for piece in ["He", "", "llo, w", "o"] { #expect(try Self.body(&assembler, piece) == nil) }
        #expect(try Self.body(&assembler, "r") == Self.content(Self.delivery, "Hello, wor"))
    }

    @Test("Messages follow each other, and nothing of one is in the next")
    func many() throws {
        var assembler = FrameAssembler()
        for text in ["first", "", "second one", "3"] {
            try assembler.begin(Self.delivery)
            let whole = try Self.header(&assembler, UInt64(text.utf8.count))
            #expect(try whole ?? Self.body(&assembler, text) == Self.content(Self.delivery, text))
        }
    }

    @Test("Frames of two channels that are interleaved come out as two messages")
    func interleaved() throws {
        var one = FrameAssembler()
        var two = FrameAssembler()
        try one.begin(Self.delivery)
        try two.begin(Self.returned)
        #expect(try Self.header(&one, 4) == nil)
        #expect(try Self.header(&two, 6) == nil)
        #expect(try Self.body(&one, "on") == nil)
        #expect(try Self.body(&two, "tw") == nil)
        #expect(try Self.body(&one, "e1") == Self.content(Self.delivery, "one1"))
        #expect(try Self.body(&two, "o234") == Self.content(Self.returned, "two234"))
    }

    @Test("A message within a message is a violation")
    func nested() throws {
        var assembler = FrameAssembler()
        try assembler.begin(Self.delivery)
        #expect(throws: Self.violation("a message within a message")) { try assembler.begin(Self.delivery) }
        #expect(try Self.header(&assembler, 3) == nil)
        #expect(throws: Self.violation("a message within a message")) { try assembler.begin(Self.delivery) }
    }

    @Test("A header without a message is a violation: at first, twice, and after a whole message")
    func header() throws {
        var assembler = FrameAssembler()
        let violation = Self.violation("a header without a message")
        #expect(throws: violation) { try Self.header(&assembler, 1) }
        try assembler.begin(Self.delivery)
        #expect(try Self.header(&assembler, 1) == nil)
        #expect(throws: violation) { try Self.header(&assembler, 1) }
        #expect(try Self.body(&assembler, "x") == Self.content(Self.delivery, "x"))
        #expect(throws: violation) { try Self.header(&assembler, 1) }
    }

    @Test("A body without a header is a violation: at first, before the header, and after a whole message")
    func body() throws {
        var assembler = FrameAssembler()
        let violation = Self.violation("a body without a header")
        #expect(throws: violation) { try Self.body(&assembler, "x") }
        try assembler.begin(Self.delivery)
        #expect(throws: violation) { try Self.body(&assembler, "x") }
        #expect(try Self.header(&assembler, 0) != nil)
        #expect(throws: violation) { try Self.body(&assembler, "x") }
    }

    @Test(
        "A body longer than its header says is a violation", arguments: [["1234"], ["12", "34"], ["1", "", "234567"]])
    func tooLong(pieces: [String]) throws {
        var assembler = FrameAssembler()
        try assembler.begin(Self.delivery)
        #expect(try Self.header(&assembler, 3) == nil)
        for piece in pieces.dropLast() { #expect(try Self.body(&assembler, piece) == nil) }
        #expect(throws: Self.violation("a body longer than its header says")) {
            try Self.body(&assembler, pieces[pieces.count - 1])
        }
    }

    private static func skipped(_ origin: FrameAssembler.Origin, _ size: UInt64) -> Content {
        Content(origin: origin, message: AMQPMessage([], properties: properties), skippedSize: size)
    }

    @Test("P15: a body over the maximum is skipped piece by piece, and what follows it is whole")
    func overMaximum() throws {
        var assembler = FrameAssembler()
        for origin in [Self.delivery, Self.returned] {
            try assembler.begin(origin)
            #expect(try Self.header(&assembler, 11, maximum: 10) == nil)
            for piece in ["Hello", "", ", wor"] { #expect(try Self.body(&assembler, piece) == nil) }
            #expect(try Self.body(&assembler, "l") == Self.skipped(origin, 11))
            try assembler.begin(origin)
            #expect(try Self.header(&assembler, 10, maximum: 10) == nil)
            #expect(try Self.body(&assembler, "Hello, wor") == Self.content(origin, "Hello, wor"))
        }
    }

    @Test("Where the maximum is nothing, or less, a message without a body is taken", arguments: [0, -1, Int.min])
    func nothing(maximum: Int) throws {
        var assembler = FrameAssembler()
        try assembler.begin(Self.delivery)
        #expect(try Self.header(&assembler, 0, maximum: maximum) == Self.content(Self.delivery, ""))
        try assembler.begin(Self.delivery)
        #expect(try Self.header(&assembler, 1, maximum: maximum) == nil)
        #expect(try Self.body(&assembler, "x") == Self.skipped(Self.delivery, 1))
    }

    @Test("P15: a body larger than any memory is skipped too, and no room is made for what a header claims")
    func overMemory() throws {
        var assembler = FrameAssembler()
        try assembler.begin(Self.delivery)
        let size: UInt64 = 64 << 30
        #expect(try Self.header(&assembler, size) == nil)
        let frame = [UInt8](repeating: 7, count: 131_072)
        for left in (0..<size / 131_072).reversed() {
            let content = try frame.withUnsafeBytes { piece throws(AMQPError) in try assembler.body(piece) }
            if left > 0 { try #require(content == nil) } else { #expect(content == Self.skipped(Self.delivery, size)) }
        }
        try assembler.begin(Self.delivery)
        #expect(try Self.header(&assembler, .max) == nil)
        #expect(try Self.body(&assembler, "x") == nil)
        #expect(throws: Self.violation("a message within a message")) { try assembler.begin(Self.delivery) }
    }

    @Test(
        "A skipped body longer than its header says is a violation too", arguments: [["123456"], ["12", "", "3456"]])
    func skippedTooLong(pieces: [String]) throws {
        var assembler = FrameAssembler()
        try assembler.begin(Self.delivery)
        #expect(try Self.header(&assembler, 5, maximum: 4) == nil)
        for piece in pieces.dropLast() { #expect(try Self.body(&assembler, piece) == nil) }
        #expect(throws: Self.violation("a body longer than its header says")) {
            try Self.body(&assembler, pieces[pieces.count - 1])
        }
    }
}
