extension JSONReader {
    /// Skips a value of any kind, checking that it is JSON. (That no name comes twice is checked where names are read.)
    ///
    /// Without recursion: which brackets are open is kept in the bits of a number.
    mutating func skip() throws(MessagingError) {
        let base = depth
        var objects: UInt64 = 0
        repeat {
            // A value is due here.
            switch try kind() {
            case .string: _ = try stringExtent("a value")
            case .number: _ = try numberExtent()
            case .bool: _ = try bool("a value")
            case .null: try literal("null")
            case .object, .array:
                let isObject = bytes[position] == 0x7B
                try descend()
                position += 1
                objects = objects << 1 | (isObject ? 1 : 0)
                if try skipsEmptyBrackets(isObject) {
                    objects >>= 1
                } else {
                    if isObject { try skipName() }
                    continue
                }
            }
            try skipClosingBrackets(&objects, downTo: base)
        } while depth > base
    }

    /// True where the brackets that were just opened are closed at once.
    private mutating func skipsEmptyBrackets(_ isObject: Bool) throws(MessagingError) -> Bool {
        skipWhitespace()
        guard position < bytes.count, bytes[position] == (isObject ? 0x7D : 0x5D) else { return false }
        position += 1
        depth -= 1
        return true
    }

    /// Behind a value: skips closing brackets, up to the comma before the next value.
    private mutating func skipClosingBrackets(_ objects: inout UInt64, downTo base: Int) throws(MessagingError) {
        while depth > base {
            skipWhitespace()
            let isObject = objects & 1 == 1
            guard position < bytes.count else { throw malformed("the text ends inside an object or array") }
            if bytes[position] == 0x2C {
                position += 1
                if isObject { try skipName() }
                return
            }
            guard bytes[position] == (isObject ? 0x7D : 0x5D) else {
                throw malformed("a comma or the closing bracket is due")
            }
            position += 1
            depth -= 1
            objects >>= 1
        }
    }

    /// Skips a member's name and the colon behind it.
    private mutating func skipName() throws(MessagingError) {
        skipWhitespace()
        guard position < bytes.count, bytes[position] == 0x22 else { throw malformed("a member's name is due") }
        _ = try stringExtent("a name")
        skipWhitespace()
        guard position < bytes.count, bytes[position] == 0x3A else { throw malformed("a colon is due") }
        position += 1
    }
}
