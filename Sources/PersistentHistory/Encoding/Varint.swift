/// SQLite's variable-length integer: seven bits a byte, the most significant first; a ninth byte carries eight.
///
/// [Database file format, 1.6](https://www.sqlite.org/fileformat2.html#varint)
enum Varint {
    /// Writes a value and returns the end. Needs room for nine bytes.
    @inline(__always)
    static func write(_ value: UInt64, to start: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer {
        if value < 0x80 {
            start.storeBytes(of: UInt8(truncatingIfNeeded: value), as: UInt8.self)
            return start + 1
        }
        if value < 0x4000 {
            start.storeBytes(of: UInt8(truncatingIfNeeded: value >> 7) | 0x80, as: UInt8.self)
            (start + 1).storeBytes(of: UInt8(truncatingIfNeeded: value) & 0x7F, as: UInt8.self)
            return start + 2
        }
        return writeLong(value, to: start)
    }

    private static func writeLong(_ value: UInt64, to start: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer {
        if value >> 56 != 0 {
            (start + 8).storeBytes(of: UInt8(truncatingIfNeeded: value), as: UInt8.self)
            for index in 0..<8 {
                let bits = UInt8(truncatingIfNeeded: value >> UInt64(8 + 7 * (7 - index))) & 0x7F
                (start + index).storeBytes(of: bits | 0x80, as: UInt8.self)
            }
            return start + 9
        }
        let length = (64 - value.leadingZeroBitCount + 6) / 7
        for index in 0..<length {
            let bits = UInt8(truncatingIfNeeded: value >> UInt64(7 * (length - 1 - index))) & 0x7F
            (start + index).storeBytes(of: index == length - 1 ? bits : bits | 0x80, as: UInt8.self)
        }
        return start + length
    }
}

/// A value as SQLite stores it in a record: a serial type, then as many bytes as it says, big-endian.
///
/// [Record format](https://www.sqlite.org/fileformat2.html#record_format)
enum SerialType {
    /// Writes an integer in its shortest form. Needs room for nine bytes.
    @inline(__always)
    static func write(integer value: Int64, to start: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer {
        if value == 0 || value == 1 {
            start.storeBytes(of: UInt8(8 + value), as: UInt8.self)
            return start + 1
        }
        let length = byteCount(of: value)
        start.storeBytes(of: UInt8(length == 8 ? 6 : length == 6 ? 5 : length), as: UInt8.self)
        let shifted = UInt64(bitPattern: value) << UInt64(64 - 8 * length)
        // Eight bytes are written whatever the length; the next value overwrites what is too much.
        (start + 1).storeBytes(of: shifted.bigEndian, as: UInt64.self)
        return start + 1 + length
    }

    @inline(__always)
    private static func byteCount(of value: Int64) -> Int {
        let significant = 65 - (value < 0 ? ~value : value).leadingZeroBitCount
        return switch significant {
        case ...8: 1
        case ...16: 2
        case ...24: 3
        case ...32: 4
        case ...48: 6
        default: 8
        }
    }

    /// Writes a real. Needs room for nine bytes.
    @inline(__always)
    static func write(realBits bits: Int64, to start: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer {
        start.storeBytes(of: 7, as: UInt8.self)
        (start + 1).storeBytes(of: UInt64(bitPattern: bits).bigEndian, as: UInt64.self)
        return start + 9
    }
}
