extension JSONReader {
    /// A string.
    mutating func string(_ what: String) throws(MessagingError) -> String {
        let (range, hasEscapes) = try stringExtent(what)
        guard hasEscapes else { return String(decoding: bytes[range], as: UTF8.self) }
        return String(decoding: unescaped(range), as: UTF8.self)
    }

    /// A string of a few bytes of ASCII without escapes, such as a number or an identifier, as it lies in the bytes.
    mutating func plainString(_ what: String) throws(MessagingError) -> ArraySlice<UInt8> {
        let start = position
        let (range, hasEscapes) = try stringExtent(what)
        guard !hasEscapes, bytes[range].allSatisfy({ $0 < 0x80 }) else {
            throw malformed("\(what) has characters that it cannot have", at: start)
        }
        return bytes[range]
    }

    /// True where the next value is a string of this beginning and this end.
    func isString(_ beginning: ArraySlice<UInt8>, _ end: String) throws(MessagingError) -> Bool {
        var copy = self
        guard try copy.kind() == .string else { return false }
        let (range, hasEscapes) = try copy.stringExtent("a string")
        return !hasEscapes && range.count == beginning.count + end.utf8.count
            && bytes[range].starts(with: beginning) && bytes[range].dropFirst(beginning.count).elementsEqual(end.utf8)
    }

    /// Reads a string to its end, checking everything: what lies between its quotes, and whether it has escapes.
    mutating func stringExtent(_ what: String) throws(MessagingError) -> (range: Range<Int>, hasEscapes: Bool) {
        guard try kind() == .string else { throw malformed("\(what) is not a string") }
        position += 1
        let start = position
        var hasEscapes = false
        while position < bytes.count {
            let byte = bytes[position]
            switch byte {
            case 0x22:
                position += 1
                return (start..<position - 1, hasEscapes)
            case 0x5C:
                hasEscapes = true
                try skipEscape()
            case 0..<0x20: throw malformed("a control character in a string")
            case 0..<0x80: position += 1
            default: try skipScalar()
            }
        }
        throw malformed("the text ends inside a string")
    }

    /// Skips an escape at the position of its backslash. Surrogates must come in pairs.
    private mutating func skipEscape() throws(MessagingError) {
        guard position + 1 < bytes.count else { throw malformed("the text ends inside a string") }
        switch bytes[position + 1] {
        case 0x22, 0x5C, 0x2F, 0x62, 0x66, 0x6E, 0x72, 0x74: position += 2
        case 0x75:
            let unit = try codeUnit(at: position)
            guard (0xD800...0xDFFF).contains(unit) else {
                position += 6
                return
            }
            guard unit < 0xDC00, position + 7 < bytes.count, bytes[position + 6] == 0x5C, bytes[position + 7] == 0x75,
                (0xDC00...0xDFFF).contains(try codeUnit(at: position + 6))
            else { throw malformed("half of a surrogate pair") }
            position += 12
        default: throw malformed("an escape that JSON does not have")
        }
    }

    /// The four hexadecimal digits of an escape that begins there.
    private func codeUnit(at start: Int) throws(MessagingError) -> UInt32 {
        guard start + 6 <= bytes.count else { throw malformed("the text ends inside a string", at: start) }
        var unit: UInt32 = 0
        for byte in bytes[start + 2..<start + 6] {
            guard let digit = Self.hexadecimalDigit(byte) else {
                throw malformed("an escape without four hexadecimal digits", at: start)
            }
            unit = unit << 4 | UInt32(digit)
        }
        return unit
    }

    /// The value of a hexadecimal digit of either case.
    static func hexadecimalDigit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46: byte - 0x37
        case 0x61...0x66: byte - 0x57
        default: nil
        }
    }

    /// Skips a character of several bytes, which must be UTF-8: the shortest form, no surrogates, nothing past U+10FFFF.
    ///
    /// [Unicode, table 3-7](https://www.unicode.org/versions/Unicode15.0.0/ch03.pdf)
    private mutating func skipScalar() throws(MessagingError) {
        let first = bytes[position]
        let length: Int
        var second: ClosedRange<UInt8> = 0x80...0xBF
        switch first {
        case 0xC2...0xDF: length = 2
        case 0xE0...0xEF:
            length = 3
            if first == 0xE0 { second = 0xA0...0xBF } else if first == 0xED { second = 0x80...0x9F }
        case 0xF0...0xF4:
            length = 4
            if first == 0xF0 { second = 0x90...0xBF } else if first == 0xF4 { second = 0x80...0x8F }
        default: throw malformed("a string that is not UTF-8")
        }
        guard position + length <= bytes.count, second.contains(bytes[position + 1]),
            bytes[position + 2..<position + max(length, 2)].allSatisfy({ 0x80...0xBF ~= $0 })
        else { throw malformed("a string that is not UTF-8") }
        position += length
    }

    /// The UTF-8 of a string whose escapes have been checked.
    private func unescaped(_ range: Range<Int>) -> [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(range.count)
        var index = range.lowerBound
        while index < range.upperBound {
            guard bytes[index] == 0x5C else {
                result.append(bytes[index])
                index += 1
                continue
            }
            guard bytes[index + 1] == 0x75 else {
                result.append(Self.escaped(bytes[index + 1]))
                index += 2
                continue
            }
            var scalar = unit(at: index)
            index += 6
            if (0xD800...0xDBFF).contains(scalar) {
                scalar = 0x10000 + (scalar - 0xD800) << 10 + (unit(at: index) - 0xDC00)
                index += 6
            }
            // Never a surrogate: those have been checked to come in pairs.
            result.append(contentsOf: String(Unicode.Scalar(scalar) ?? "\u{FFFD}").utf8)
        }
        return result
    }

    /// The same as ``codeUnit(at:)`` where that has succeeded before.
    private func unit(at start: Int) -> UInt32 {
        bytes[start + 2..<start + 6].reduce(0) { $0 << 4 | UInt32(Self.hexadecimalDigit($1) ?? 0) }
    }

    private static func escaped(_ byte: UInt8) -> UInt8 {
        switch byte {
        case 0x62: 0x08
        case 0x66: 0x0C
        case 0x6E: 0x0A
        case 0x72: 0x0D
        case 0x74: 0x09
        default: byte
        }
    }
}
