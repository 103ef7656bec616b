internal import TidingsSQLite

extension JSONReader {
    /// A value of one of SQLite's storage classes, tagged where JSON has no such value.
    mutating func value() throws(MessagingError) -> SQLiteValue {
        switch try kind() {
        case .null:
            try literal("null")
            return .null
        case .number: return try numericValue()
        case .string: return .text(try string("a value"))
        case .object: return try taggedValue()
        case .bool, .array: throw malformed("a value that SQLite does not have")
        }
    }

    /// `{"$integer": "…"}`, `{"$real": "…"}`, `{"$text": base64}` or `{"$blob": base64}`.
    private mutating func taggedValue() throws(MessagingError) -> SQLiteValue {
        var names = MemberNames()
        try beginObject("a tagged value")
        guard let tag = try nextMember(&names) else { throw malformed("a tagged value without its tag") }
        skipWhitespace()
        let start = position
        let text = try plainString("a tagged value")
        let value: SQLiteValue? =
            switch tag {
            case "$integer": Self.integer(text).map { .integer($0) }
            case "$real": Self.infinity(text).map { .real($0) }
            case "$text": Base64Decoding.bytes(text).map { SQLiteValue(textBytes: $0) }
            case "$blob": Base64Decoding.bytes(text).map { .blob($0) }
            default: nil
            }
        guard let value else { throw malformed("a tagged value that is none", at: start) }
        guard try nextMember(&names) == nil else { throw malformed("a tagged value with more than its tag") }
        return value
    }

    private static func infinity(_ text: ArraySlice<UInt8>) -> Double? {
        if text.elementsEqual("Infinity".utf8) { return .infinity }
        return text.elementsEqual("-Infinity".utf8) ? -.infinity : nil
    }
}

/// Reads base64 with its padding.
///
/// [RFC 4648, section 4](https://www.rfc-editor.org/rfc/rfc4648#section-4)
enum Base64Decoding {
    /// The bytes; nil where the text is not what an encoder writes, bits behind the end included.
    static func bytes(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        guard text.count % 4 == 0 else { return nil }
        let content =
            text.suffix(2).elementsEqual([0x3D, 0x3D])
            ? text.dropLast(2)
            : text.last == 0x3D ? text.dropLast() : text
        var result: [UInt8] = []
        result.reserveCapacity(content.count * 3 / 4)
        var bits: UInt32 = 0
        var count: UInt32 = 0
        for byte in content {
            guard let digit = digit(byte) else { return nil }
            bits = bits << 6 | UInt32(digit)
            count += 6
            if count >= 8 {
                count -= 8
                result.append(UInt8(truncatingIfNeeded: bits >> count))
                bits &= (1 << count) - 1
            }
        }
        return bits == 0 ? result : nil
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x41...0x5A: byte - 0x41
        case 0x61...0x7A: byte - 0x47
        case 0x30...0x39: byte + 4
        case 0x2B: 62
        case 0x2F: 63
        default: nil
        }
    }
}
