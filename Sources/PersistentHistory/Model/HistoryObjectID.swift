public import FoundationEssentials
internal import TidingsSQLite

/// The identity of an object: its store, its entity and its primary key.
public struct HistoryObjectID: Sendable, Hashable, CustomStringConvertible {
    /// The store.
    public let storeID: UUID
    /// The entity: a tracked table.
    public let entity: String
    /// The primary key, column by column in the key's order.
    public let key: HistoryValues

    /// Makes an identity.
    public init(storeID: UUID, entity: String, key: HistoryValues) {
        self.storeID = storeID
        self.entity = entity
        self.key = key
    }

    /// A URL that stays the same as long as the key does: `tidings://<store>/<entity>/<column>=<value>&…`.
    ///
    /// A value starts with a letter that tells its storage class: `i42`, `r1.5`, `ttext`, `x00ff` (blob), `n` (NULL),
    /// `m` and hexadecimal for text that is not valid UTF-8. All else is percent-encoded UTF-8.
    public var url: String {
        let parts = key.map { column, value in "\(Percent.encode(column))=\(Self.encode(value))" }
        return "tidings://\(storeID.uuidString.lowercased())/\(Percent.encode(entity))/\(parts.joined(separator: "&"))"
    }

    /// The URL.
    public var description: String { url }

    /// Reads the form that ``url`` writes; nil for anything else.
    public init?(url: String) {
        let prefix = "tidings://"
        guard url.hasPrefix(prefix) else { return nil }
        let parts = url.dropFirst(prefix.count).split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 3, let storeID = UUID(uuidString: String(parts[0])),
            let entity = Percent.decode(parts[1]), !entity.isEmpty
        else { return nil }
        var columns: [String] = []
        var values: [SQLiteValue] = []
        for pair in parts[2].split(separator: "&", omittingEmptySubsequences: false) {
            guard let equals = pair.firstIndex(of: "="), let column = Percent.decode(pair[..<equals]),
                let value = Self.decode(pair[pair.index(after: equals)...])
            else { return nil }
            columns.append(column)
            values.append(value)
        }
        self.init(storeID: storeID, entity: entity, key: HistoryValues(columns: columns, values: values))
    }

    private static func encode(_ value: SQLiteValue) -> String {
        switch value {
        case .null: "n"
        case .integer(let number): "i\(number)"
        case .real(let number): "r\(Percent.encode(number.description))"
        case .text(let text): "t\(Percent.encode(text))"
        case .malformedText(let bytes): "m\(hexadecimal(bytes))"
        case .blob(let bytes): "x\(hexadecimal(bytes))"
        }
    }

    private static func decode(_ text: Substring) -> SQLiteValue? {
        let rest = text.dropFirst()
        switch text.first {
        case "n": return rest.isEmpty ? .null : nil
        case "i": return Int64(rest).map { .integer($0) }
        case "r": return Percent.decode(rest).flatMap { Double($0) }.map { .real($0) }
        case "t": return Percent.decode(rest).map { .text($0) }
        case "m": return bytes(rest).map { .malformedText($0) }
        case "x": return bytes(rest).map { .blob($0) }
        default: return nil
        }
    }

    private static func hexadecimal(_ bytes: [UInt8]) -> String {
        bytes.map { $0 < 16 ? "0" + String($0, radix: 16) : String($0, radix: 16) }.joined()
    }

    private static func bytes(_ text: Substring) -> [UInt8]? {
        let digits = Array(text.utf8)
        guard digits.count % 2 == 0 else { return nil }
        var bytes: [UInt8] = []
        for start in stride(from: 0, to: digits.count, by: 2) {
            guard let byte = UInt8(String(decoding: digits[start..<start + 2], as: UTF8.self), radix: 16) else {
                return nil
            }
            bytes.append(byte)
        }
        return bytes
    }
}

/// Percent-encoding of everything but the unreserved characters.
///
/// [RFC 3986, section 2](https://www.rfc-editor.org/rfc/rfc3986#section-2)
private enum Percent {
    static func encode(_ text: String) -> String {
        var result = ""
        for byte in text.utf8 {
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E:
                result.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                result += byte < 16 ? "%0" : "%"
                result += String(byte, radix: 16, uppercase: true)
            }
        }
        return result
    }

    static func decode(_ text: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8
        while let byte = rest.popFirst() {
            guard byte == 0x25 else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.popFirst(), let low = rest.popFirst(),
                let value = UInt8(String(decoding: [high, low], as: UTF8.self), radix: 16)
            else { return nil }
            bytes.append(value)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
