internal import TidingsSQLite

extension JSONReader {
    /// A whole number without fraction and exponent.
    mutating func integer(_ what: String) throws(MessagingError) -> Int64 {
        guard try kind() == .number else { throw malformed("\(what) is not a number") }
        let (range, isWhole) = try numberExtent()
        guard isWhole, let value = Self.integer(bytes[range]) else {
            throw malformed("\(what) is not a whole number of 64 bits", at: range.lowerBound)
        }
        return value
    }

    /// A number as SQLite's value: an integer where it has neither fraction nor exponent.
    ///
    /// An integer past ±(2^53 − 1) is refused: it should be tagged, and may have been rounded on its way.
    mutating func numericValue() throws(MessagingError) -> SQLiteValue {
        let (range, isWhole) = try numberExtent()
        if isWhole {
            guard let value = Self.integer(bytes[range]), (-Self.largestExact...Self.largestExact).contains(value)
            else {
                throw malformed("an integer past 2^53 - 1 that is not tagged", at: range.lowerBound)
            }
            return .integer(value)
        }
        guard let value = Double(String(decoding: bytes[range], as: UTF8.self)), value.isFinite else {
            throw malformed("a number past the range of a real", at: range.lowerBound)
        }
        return .real(value)
    }

    private static let largestExact: Int64 = (1 << 53) - 1

    /// Reads a number to its end, checking its form: where it lies, and whether it has neither fraction nor exponent.
    mutating func numberExtent() throws(MessagingError) -> (range: Range<Int>, isWhole: Bool) {
        let start = position
        if bytes[position] == 0x2D { position += 1 }
        let first = position
        try skipDigits()
        guard bytes[first] != 0x30 || position == first + 1 else {
            throw malformed("a number with a leading zero", at: start)
        }
        var isWhole = true
        if position < bytes.count, bytes[position] == 0x2E {
            isWhole = false
            position += 1
            try skipDigits()
        }
        if position < bytes.count, bytes[position] | 0x20 == 0x65 {
            isWhole = false
            position += 1
            if position < bytes.count, bytes[position] == 0x2B || bytes[position] == 0x2D { position += 1 }
            try skipDigits()
        }
        return (start..<position, isWhole)
    }

    /// Skips digits, at least one.
    private mutating func skipDigits() throws(MessagingError) {
        let start = position
        while position < bytes.count, 0x30...0x39 ~= bytes[position] { position += 1 }
        guard position > start else { throw malformed("a digit is due") }
    }

    /// The value of decimal digits, perhaps with a minus before them; nil where there are other characters or it is out
    /// of range.
    static func integer(_ digits: ArraySlice<UInt8>) -> Int64? {
        let isNegative = digits.first == 0x2D
        let rest = isNegative ? digits.dropFirst() : digits
        guard !rest.isEmpty else { return nil }
        var value: Int64 = 0
        for byte in rest {
            guard 0x30...0x39 ~= byte else { return nil }
            let (product, isTooLarge) = value.multipliedReportingOverflow(by: 10)
            let digit = Int64(byte - 0x30)
            let (sum, isOut) =
                isNegative
                ? product.subtractingReportingOverflow(digit) : product.addingReportingOverflow(digit)
            guard !isTooLarge, !isOut else { return nil }
            value = sum
        }
        return value
    }
}
