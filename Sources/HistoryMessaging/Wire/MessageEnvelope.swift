internal import PersistentHistory
internal import TidingsSQLite

/// The top level of a history message: where each member's value lies. All of the text has been checked to be JSON.
struct MessageEnvelope {
    /// The members that are known.
    enum Member: String, CaseIterable {
        case specversion, id, source, type, time, datacontenttype, data
        case store, epoch, sequence, nonce, previousnonce, author, contextname, origin, entities, changecount, omitted
    }

    /// The version of CloudEvents.
    static let specificationVersion = "1.0"
    /// The kind of message without its version, and with it.
    static let kind = "tidings.history.transaction."
    static let type = "tidings.history.transaction.v1"
    /// The media type of the whole message, and of what `data` holds.
    static let contentType = "application/cloudevents+json"
    static let dataContentType = "application/json"

    private let start: JSONReader
    private var places: [Member: Int] = [:]

    init(_ body: [UInt8]) throws(MessagingError) {
        var reader = JSONReader(body, subject: "history message")
        start = reader
        var names = MemberNames()
        try reader.beginObject("the message")
        while let name = try reader.nextMember(&names) {
            reader.skipWhitespace()
            if let member = Member(rawValue: name) { places[member] = reader.position }
            try reader.skip()
        }
        try reader.end()
        try checkVersion()
    }

    /// Whatever else a message of another version holds is not looked at.
    private func checkVersion() throws(MessagingError) {
        let version = try text(.specversion)
        guard version == Self.specificationVersion else {
            throw MessagingError(
                .foreignVersion,
                "a message of another version of CloudEvents than \(Self.specificationVersion): update this program")
        }
        let type = try text(.type)
        guard type != Self.type else { return }
        guard type.hasPrefix(Self.kind) else { throw malformed("'type' is not that of a history message", at: .type) }
        throw MessagingError(
            .foreignVersion, "a history message of another version than \(Self.type): update this program")
    }

    // MARK: Members

    func has(_ member: Member) -> Bool { places[member] != nil }

    /// A reader at a member's value.
    func reader(at member: Member) throws(MessagingError) -> JSONReader {
        guard let place = places[member] else {
            throw start.malformed("'\(member.rawValue)' is missing", at: start.bytes.count)
        }
        var reader = start
        reader.position = place
        reader.depth = 1
        return reader
    }

    func text(_ member: Member) throws(MessagingError) -> String {
        var reader = try reader(at: member)
        return try reader.string(member.rawValue)
    }

    /// A number that is written as text: CloudEvents has none of more than 32 bits.
    private func number(_ member: Member) throws(MessagingError) -> Int64 {
        var reader = try reader(at: member)
        let digits = try reader.plainString(member.rawValue)
        guard digits.first != 0x2D, digits.count <= 19, let value = JSONReader.integer(digits) else {
            throw malformed("'\(member.rawValue)' is not text of up to 19 digits", at: member)
        }
        return value
    }

    func malformed(_ what: String, at member: Member) -> MessagingError {
        start.malformed(what, at: places[member] ?? start.bytes.count)
    }

    // MARK: The header

    func header() throws(MessagingError) -> HistoryMessageHeader {
        let token = try token()
        guard try !text(.source).isEmpty else { throw malformed("'source' is empty", at: .source) }
        let author = try text(.author)
        guard !author.isEmpty else { throw malformed("'author' is empty", at: .author) }
        guard let time = RFC3339.microseconds(try text(.time)) else {
            throw malformed("'time' is not a time of RFC 3339", at: .time)
        }
        let count = try number(.changecount)
        return HistoryMessageHeader(
            token: token, previousNonce: has(.previousnonce) ? try nonce(.previousnonce) : nil, author: author,
            contextName: has(.contextname) ? try text(.contextname) : nil, origin: try text(.origin),
            microseconds: time, entities: try entities(), changeCount: Int(count), isOmitted: try isOmitted())
    }

    private func token() throws(MessagingError) -> HistoryToken {
        var parts = TokenParts()
        var reader = try reader(at: .store)
        let store = try reader.storeID()
        parts.storeID = store.id
        parts.epoch = try number(.epoch)
        parts.sequence = try number(.sequence)
        parts.nonce = try nonce(.nonce)
        let token = try parts.token(reader)
        guard try self.reader(at: .id).isString(store.text, ":\(token.epoch):\(token.sequence)") else {
            throw malformed("'id' is not <store>:<epoch>:<sequence>", at: .id)
        }
        return token
    }

    private func nonce(_ member: Member) throws(MessagingError) -> UInt64 {
        var reader = try reader(at: member)
        return try reader.nonce()
    }

    private func entities() throws(MessagingError) -> [String] {
        guard has(.entities) else { return [] }
        guard let names = MessageText.names(try text(.entities)) else {
            throw malformed("'entities' are not percent-encoded names with commas between them", at: .entities)
        }
        return names
    }

    /// Whether the changes are left out; checks that they are there otherwise, and only then.
    private func isOmitted() throws(MessagingError) -> Bool {
        var isOmitted = false
        if has(.omitted) {
            var reader = try reader(at: .omitted)
            isOmitted = try reader.bool("omitted")
        }
        guard isOmitted != has(.data) else {
            throw malformed("'data' must be there, unless 'omitted' is true, and only then", at: .data)
        }
        if has(.datacontenttype), try text(.datacontenttype) != Self.dataContentType {
            throw malformed("'datacontenttype' is not \(Self.dataContentType)", at: .datacontenttype)
        }
        return isOmitted
    }
}
