/// Reads JSON from bytes that may be anything: by the letter of RFC 8259, in time and memory linear in their number.
///
/// Values are read in the order of the text, by calls that say what is expected. Every error names what was wrong and at
/// which byte, and nothing of the content.
///
/// [RFC 8259](https://www.rfc-editor.org/rfc/rfc8259)
struct JSONReader {
    /// What a value is, by its first byte.
    enum Kind {
        case object, array, string, number, bool, null
    }

    /// How deep objects and arrays may be nested.
    static let maximumDepth = 32

    let bytes: [UInt8]
    /// What the message is, for errors: `acknowledgement`.
    let subject: String
    var position: Int
    var depth = 0
    /// True right behind the bracket that opens an object or array.
    private var isFirst = false

    init(_ bytes: [UInt8], subject: String, at position: Int = 0) {
        self.bytes = bytes
        self.subject = subject
        self.position = position
    }

    // MARK: Structure

    /// What the next value is.
    mutating func kind() throws(MessagingError) -> Kind {
        skipWhitespace()
        guard position < bytes.count else { throw malformed("the text ends where a value is due") }
        switch bytes[position] {
        case 0x7B: return .object
        case 0x5B: return .array
        case 0x22: return .string
        case 0x2D, 0x30...0x39: return .number
        case 0x74, 0x66: return .bool
        case 0x6E: return .null
        default: throw malformed("a value is due")
        }
    }

    /// Enters an object; ``nextMember(_:)`` gives its members.
    mutating func beginObject(_ what: String) throws(MessagingError) { try begin(.object, what) }

    /// Enters an array; ``nextElement()`` tells of its elements.
    mutating func beginArray(_ what: String) throws(MessagingError) { try begin(.array, what) }

    private mutating func begin(_ kind: Kind, _ what: String) throws(MessagingError) {
        guard try self.kind() == kind else {
            throw malformed(kind == .object ? "\(what) is not an object" : "\(what) is not an array")
        }
        try descend()
        position += 1
        isFirst = true
    }

    mutating func descend() throws(MessagingError) {
        depth += 1
        guard depth <= Self.maximumDepth else { throw malformed("nesting deeper than \(Self.maximumDepth) levels") }
    }

    /// The name of the open object's next member, whose value comes next; nil at the object's end.
    mutating func nextMember(_ names: inout MemberNames) throws(MessagingError) -> String? {
        guard try hasNext(0x7D) else { return nil }
        skipWhitespace()
        let start = position
        guard position < bytes.count, bytes[position] == 0x22 else { throw malformed("a member's name is due") }
        let name = try string("a name")
        guard names.insert(name) else { throw malformed("a name that the object has already", at: start) }
        skipWhitespace()
        guard position < bytes.count, bytes[position] == 0x3A else { throw malformed("a colon is due") }
        position += 1
        return name
    }

    /// True where the open array has a further element, which comes next; false at the array's end.
    mutating func nextElement() throws(MessagingError) -> Bool { try hasNext(0x5D) }

    private mutating func hasNext(_ closing: UInt8) throws(MessagingError) -> Bool {
        skipWhitespace()
        guard position < bytes.count else { throw malformed("the text ends inside an object or array") }
        let wasFirst = isFirst
        isFirst = false
        if bytes[position] == closing {
            position += 1
            depth -= 1
            return false
        }
        if !wasFirst {
            guard bytes[position] == 0x2C else { throw malformed("a comma or the closing bracket is due") }
            position += 1
        }
        return true
    }

    /// Checks that nothing but white space follows.
    mutating func end() throws(MessagingError) {
        skipWhitespace()
        guard position == bytes.count else { throw malformed("something follows the end of the text") }
    }

    mutating func skipWhitespace() {
        while position < bytes.count {
            switch bytes[position] {
            case 0x20, 0x09, 0x0A, 0x0D: position += 1
            default: return
            }
        }
    }

    // MARK: Values

    /// True where the next value is `null`, which is read then.
    mutating func null() throws(MessagingError) -> Bool {
        guard try kind() == .null else { return false }
        try literal("null")
        return true
    }

    /// A truth value.
    mutating func bool(_ what: String) throws(MessagingError) -> Bool {
        guard try kind() == .bool else { throw malformed("\(what) is not true or false") }
        let value = bytes[position] == 0x74
        try literal(value ? "true" : "false")
        return value
    }

    mutating func literal(_ text: StaticString) throws(MessagingError) {
        let count = text.utf8CodeUnitCount
        let matches = text.withUTF8Buffer { expected in
            position + count <= bytes.count && bytes[position..<position + count].elementsEqual(expected)
        }
        guard matches else { throw malformed("a value is due") }
        position += count
    }

    // MARK: Errors

    /// The error of what stands at a byte.
    func malformed(_ what: String, at place: Int? = nil) -> MessagingError {
        MessagingError(.malformedMessage, "malformed \(subject): \(what), at byte \(place ?? position)")
    }
}

/// The names that an object has had so far, to find one that comes twice. Compared by their bytes: to Swift the two
/// spellings of "é" are one string.
struct MemberNames {
    private(set) var names: [String] = []
    private var bytes: Set<[UInt8]> = []
    /// As many are compared one by one.
    private static let few = 16

    /// Remembers a name; false where it is there already.
    mutating func insert(_ name: String) -> Bool {
        if names.count < Self.few {
            let count = name.utf8.count
            let isThere = names.contains { $0.utf8.count == count && $0.utf8.elementsEqual(name.utf8) }
            guard !isThere else { return false }
        } else {
            if bytes.isEmpty { bytes = Set(names.map { Array($0.utf8) }) }
            guard bytes.insert(Array(name.utf8)).inserted else { return false }
        }
        names.append(name)
        return true
    }
}
