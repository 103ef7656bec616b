/// Texts of messages and of their AMQP properties.
enum MessageText {
    /// A text for AMQP's properties, which have room for 255 bytes: its end, which tells most, stays.
    static func short(_ text: String) -> String {
        guard text.utf8.count > 255 else { return text }
        // Not in the middle of a character of several bytes.
        return String(decoding: text.utf8.suffix(255).drop { $0 & 0xC0 == 0x80 }, as: UTF8.self)
    }

    /// A sequence in nineteen digits, so that texts have the order of numbers.
    static func padded(_ sequence: Int64) -> String {
        let digits = String(sequence)
        return String(repeating: "0", count: max(0, 19 - digits.utf8.count)) + digits
    }

    /// Names in one text: percent-encoded but for RFC 3986's unreserved characters, with commas between them.
    /// (CloudEvents has no lists.) At least one name: SQLite lets a table's be empty.
    static func list(_ names: [String]) -> String {
        var bytes: [UInt8] = []
        for (index, name) in names.enumerated() {
            if index > 0 { bytes.append(0x2C) }
            for byte in name.utf8 {
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: bytes.append(byte)
                default: bytes += [0x25, upperDigit(byte >> 4), upperDigit(byte & 15)]
                }
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func upperDigit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x37 + value }

    /// Reads what ``list(_:)`` writes; nil for anything that is not percent-encoded UTF-8.
    static func names(_ list: String) -> [String]? {
        var names: [String] = []
        for part in list.utf8.split(separator: 0x2C, omittingEmptySubsequences: false) {
            guard let name = decoded(part) else { return nil }
            names.append(name)
        }
        return names
    }

    private static func decoded(_ text: Substring.UTF8View) -> String? {
        var bytes: [UInt8] = []
        var rest = text
        while let byte = rest.popFirst() {
            guard byte == 0x25 else {
                bytes.append(byte)
                continue
            }
            guard let first = rest.popFirst(), let high = JSONReader.hexadecimalDigit(first),
                let second = rest.popFirst(), let low = JSONReader.hexadecimalDigit(second)
            else { return nil }
            bytes.append(high << 4 | low)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
