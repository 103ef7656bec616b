internal import TidingsSQLite

/// Reads encoded records, trusting nothing: damaged bytes end in an error, whatever they are.
struct RecordReader {
    private let bytes: UnsafeRawBufferPointer
    /// The offset of the next byte.
    private(set) var position: Int
    private let end: Int

    /// Reads `bytes` from an offset up to another, both inside it.
    init(_ bytes: UnsafeRawBufferPointer, from start: Int, to end: Int) {
        self.bytes = bytes
        position = start
        self.end = end
    }

    var isAtEnd: Bool { position == end }

    @inline(__always)
    mutating func byte() throws(HistoryError) -> UInt8 {
        guard position < end else { throw Self.truncated }
        defer { position += 1 }
        return bytes[position]
    }

    @inline(__always)
    mutating func varint() throws(HistoryError) -> UInt64 {
        let first = try byte()
        return first < 0x80 ? UInt64(first) : try longVarint(first)
    }

    private mutating func longVarint(_ first: UInt8) throws(HistoryError) -> UInt64 {
        var value = UInt64(first & 0x7F)
        for _ in 0..<7 {
            let next = try byte()
            value = value << 7 | UInt64(next & 0x7F)
            if next < 0x80 { return value }
        }
        return value << 8 | UInt64(try byte())
    }

    /// Skips a number of bytes.
    @inline(__always)
    mutating func skip(_ count: Int) throws(HistoryError) {
        guard count <= end - position else { throw Self.truncated }
        position += count
    }

    /// The number of bytes behind a serial type.
    @inline(__always)
    private static func length(of type: UInt64) throws(HistoryError) -> Int {
        switch type {
        case 0, 8, 9, 10: return 0
        case 1...4: return Int(type)
        case 5: return 6
        case 6, 7: return 8
        case 12...:
            guard let length = Int(exactly: (type - 12) / 2) else { throw truncated }
            return length
        default: throw HistoryError(.damagedHistory, "damaged history: serial type \(type) does not exist")
        }
    }

    /// Skips a value.
    @inline(__always)
    mutating func skipValue() throws(HistoryError) {
        let type = try varint()
        try skip(try Self.length(of: type))
    }

    /// Skips a value and tells whether it is NULL or redacted.
    mutating func skipValueTellingRedaction() throws(HistoryError) -> Bool {
        let type = try varint()
        try skip(try Self.length(of: type))
        return type == RecordFormat.redactedSerialType
    }

    /// A value; nil for a redacted one. (Written out: by way of ``storedValue()`` it takes a tenth longer.)
    mutating func value() throws(HistoryError) -> SQLiteValue? {
        let type = try varint()
        let length = try Self.length(of: type)
        let start = position
        try skip(length)
        switch type {
        case 0: return .null
        case RecordFormat.redactedSerialType: return nil
        case 8, 9: return .integer(Int64(type) - 8)
        case 7: return .real(Double(bitPattern: UInt64(bitPattern: integer(at: start, length: 8))))
        case 1...6: return .integer(integer(at: start, length: length))
        default:
            let content = UnsafeRawBufferPointer(rebasing: bytes[start..<start + length])
            return type % 2 == 1 ? SQLiteValue(textBytes: content) : .blob(Array(content))
        }
    }

    /// A value, of which text and blobs stay where they lie.
    @inline(__always)
    mutating func storedValue() throws(HistoryError) -> StoredValue {
        let type = try varint()
        let length = try Self.length(of: type)
        let start = position
        try skip(length)
        switch type {
        case 0: return .null
        case RecordFormat.redactedSerialType: return .redacted
        case 8, 9: return .integer(Int64(type) - 8)
        case 7: return .real(Double(bitPattern: UInt64(bitPattern: integer(at: start, length: 8))))
        case 1...6: return .integer(integer(at: start, length: length))
        default: return type % 2 == 1 ? .text(start..<start + length) : .blob(start..<start + length)
        }
    }

    /// A big-endian two's complement integer.
    private func integer(at start: Int, length: Int) -> Int64 {
        var value: Int64 = bytes[start] >= 0x80 ? -1 : 0
        for offset in 0..<length { value = value << 8 | Int64(bytes[start + offset]) }
        return value
    }

    static let truncated = HistoryError(.damagedHistory, "damaged history: a record ends before its time")
}

/// A value of a record; text and blobs by where their bytes lie.
enum StoredValue {
    case null, redacted
    case integer(Int64)
    case real(Double)
    case text(Range<Int>)
    case blob(Range<Int>)
}
