/// Decodes history's records as a program in C would that knows the table and trusts the file: by pointers without
/// bounds, into nothing but what the caller keeps.
///
/// The format is described in the article "History format".
struct RawRecords {
    /// What a walk over records has seen, so that none of the work can be left out.
    struct Sum {
        var changes = 0
        var integers: Int64 = 0
        var reals = 0.0
        var bytes = 0
    }

    /// Columns of a record.
    private let columns: Int
    /// The key's only column.
    private let key: Int

    init(columns: Int, key: Int) {
        self.columns = columns
        self.key = key
    }

    /// Walks over a transaction's encoded changes, whose first byte is the version.
    @inline(__always)
    func walk(_ start: UnsafePointer<UInt8>, _ count: Int, _ sum: inout Sum) {
        var cursor = start + 1
        let end = start + count
        while cursor < end {
            let kind = cursor.pointee
            cursor += 1
            _ = Self.varint(&cursor)
            switch kind {
            case 1, 3:
                sum.changes += 1
                for _ in 0..<columns { Self.value(&cursor, &sum) }
            case 2:
                sum.changes += 1
                update(&cursor, &sum)
            // The workload has no other changes; what is said of tables has a length.
            default:
                let length = Self.varint(&cursor)
                cursor += Int(length)
            }
        }
    }

    @inline(__always)
    private func update(_ cursor: inout UnsafePointer<UInt8>, _ sum: inout Sum) {
        Self.value(&cursor, &sum)
        let map = cursor
        cursor += (columns + 7) / 8
        for column in 0..<columns where map[column >> 3] & (1 << UInt8(column & 7)) != 0 {
            if column != key { Self.value(&cursor, &sum) }
            Self.value(&cursor, &sum)
        }
    }

    @inline(__always)
    private static func varint(_ cursor: inout UnsafePointer<UInt8>) -> UInt64 {
        var byte = cursor.pointee
        cursor += 1
        if byte < 0x80 { return UInt64(byte) }
        var value = UInt64(byte & 0x7F)
        for _ in 0..<7 {
            byte = cursor.pointee
            cursor += 1
            value = value << 7 | UInt64(byte & 0x7F)
            if byte < 0x80 { return value }
        }
        byte = cursor.pointee
        cursor += 1
        return value << 8 | UInt64(byte)
    }

    @inline(__always)
    private static func value(_ cursor: inout UnsafePointer<UInt8>, _ sum: inout Sum) {
        let type = varint(&cursor)
        switch type {
        case 0, 10: break
        case 8, 9: sum.integers &+= Int64(type) - 8
        case 1...4: sum.integers &+= integer(&cursor, Int(type))
        case 5: sum.integers &+= integer(&cursor, 6)
        case 6: sum.integers &+= integer(&cursor, 8)
        case 7: sum.reals += Double(bitPattern: UInt64(bitPattern: integer(&cursor, 8)))
        default:
            // Where the text lies and how long it is: a program in C has its value by that.
            let length = Int((type - 12) / 2)
            sum.bytes &+= length
            cursor += length
        }
    }

    @inline(__always)
    private static func integer(_ cursor: inout UnsafePointer<UInt8>, _ length: Int) -> Int64 {
        var value: Int64 = cursor.pointee >= 0x80 ? -1 : 0
        for _ in 0..<length {
            value = value << 8 | Int64(cursor.pointee)
            cursor += 1
        }
        return value
    }
}
