internal import FoundationEssentials
internal import PersistentHistory

/// The parts of a token, as a message names them one by one.
struct TokenParts {
    var storeID: UUID?
    var epoch: Int64?
    var sequence: Int64?
    var nonce: UInt64?

    /// The token; throws where a part is missing or out of range.
    func token(_ reader: JSONReader) throws(MessagingError) -> HistoryToken {
        guard let storeID else { throw reader.malformed("'store' is missing") }
        guard let epoch, epoch > 0 else { throw reader.malformed("'epoch' is missing or below 1") }
        guard let sequence, sequence >= 0 else { throw reader.malformed("'sequence' is missing or below 0") }
        guard let nonce else { throw reader.malformed("'nonce' is missing") }
        return HistoryToken(storeID: storeID, epoch: epoch, sequence: sequence, nonce: nonce)
    }
}

extension JSONReader {
    /// A store's UUID, in lower-case hexadecimal with its four hyphens, and how it was written.
    mutating func storeID() throws(MessagingError) -> (id: UUID, text: ArraySlice<UInt8>) {
        let start = position
        let text = try plainString("store")
        guard let id = Self.storeID(text) else { throw malformed("'store' is not a UUID in lower case", at: start) }
        return (id, text)
    }

    private static func storeID(_ text: ArraySlice<UInt8>) -> UUID? {
        guard text.count == 36 else { return nil }
        var id: uuid_t = (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        var count = 0
        for (offset, byte) in text.enumerated() {
            if offset == 8 || offset == 13 || offset == 18 || offset == 23 {
                guard byte == 0x2D else { return nil }
                continue
            }
            guard let digit = hexadecimalDigit(byte), !(0x41...0x46 ~= byte) else { return nil }
            withUnsafeMutableBytes(of: &id) { $0[count / 2] = $0[count / 2] << 4 | digit }
            count += 1
        }
        return UUID(uuid: id)
    }

    /// Sixteen lower-case hexadecimal digits.
    mutating func nonce() throws(MessagingError) -> UInt64 {
        let start = position
        let text = try plainString("a nonce")
        var value: UInt64 = 0
        for byte in text {
            guard let digit = Self.hexadecimalDigit(byte), !(0x41...0x46 ~= byte) else {
                throw malformed("a nonce is not sixteen digits of lower-case hexadecimal", at: start)
            }
            value = value << 4 | UInt64(digit)
        }
        guard text.count == 16 else {
            throw malformed("a nonce is not sixteen digits of lower-case hexadecimal", at: start)
        }
        return value
    }
}
