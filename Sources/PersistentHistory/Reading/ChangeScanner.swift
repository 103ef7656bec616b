internal import TidingsSQLite

/// The layouts that records refer to, by number. A snapshot: layouts never change, new ones make a new snapshot.
final class LayoutTable: Sendable {
    let layouts: [Int64: HistoryLayout]

    /// The layouts with small numbers, which are nearly all, by their number.
    private let numbered: [HistoryLayout?]

    init(_ layouts: [Int64: HistoryLayout]) {
        self.layouts = layouts
        let last = layouts.keys.filter { (0..<4096).contains($0) }.max() ?? -1
        numbered = (0..<last + 1).map { layouts[$0] }
    }

    /// The layout that a record names.
    @inline(__always)
    subscript(number: UInt64) -> HistoryLayout? {
        number < UInt64(numbered.count) ? numbered[Int(number)] : layouts[Int64(bitPattern: number)]
    }

    /// Every layout that an entity of that name has or had; several entities where a name was used again.
    func entityIDs(named name: String) -> Set<Int64> {
        Set(layouts.values.filter { TableInspector.isSameName($0.entity, name) }.map(\.entityID))
    }

    /// The newest name of an entity.
    func name(ofEntity id: Int64) -> String? {
        layouts.values.filter { $0.entityID == id }.max { $0.id < $1.id }?.entity
    }
}

/// Where a record lies among the encoded bytes, and what it is. Its structure has been checked to its end.
struct RecordExtent {
    let kind: RecordFormat.Kind
    let layout: HistoryLayout
    /// The offset behind the kind and the layout's number.
    let body: Int
    let end: Int
}

/// Walks over encoded records one by one, checking the structure of each.
struct ChangeScanner {
    /// The layout of the record before, which most often is the next one's too.
    private var lastLayout: HistoryLayout?

    /// The record at an offset.
    @inline(__always)
    mutating func record(
        in bytes: UnsafeRawBufferPointer, at start: Int, to end: Int, layouts: LayoutTable
    ) throws(HistoryError) -> RecordExtent {
        var reader = RecordReader(bytes, from: start, to: end)
        let byte = try reader.byte()
        guard let kind = RecordFormat.Kind(rawValue: byte) else {
            throw HistoryError(.damagedHistory, "damaged history: record kind \(byte) does not exist")
        }
        let layout = try layout(number: try reader.varint(), layouts)
        let body = reader.position
        try Self.skipBody(kind, layout, in: bytes, &reader)
        return RecordExtent(kind: kind, layout: layout, body: body, end: reader.position)
    }

    @inline(__always)
    private mutating func layout(number: UInt64, _ table: LayoutTable) throws(HistoryError) -> HistoryLayout {
        if let lastLayout, UInt64(bitPattern: lastLayout.id) == number { return lastLayout }
        guard let found = table[number] else {
            throw HistoryError(.damagedHistory, "damaged history: layout \(number) does not exist")
        }
        lastLayout = found
        return found
    }

    @inline(__always)
    private static func skipBody(
        _ kind: RecordFormat.Kind, _ layout: HistoryLayout, in bytes: UnsafeRawBufferPointer,
        _ reader: inout RecordReader
    ) throws(HistoryError) {
        switch kind {
        case .insert:
            for _ in 0..<layout.columnNames.count { try reader.skipValue() }
        case .delete:
            for _ in 0..<layout.tombstoneColumns.count { try reader.skipValue() }
        case .update:
            for _ in 0..<layout.keyColumns.count { try reader.skipValue() }
            let map = try changedColumns(layout, in: bytes, &reader)
            for column in 0..<layout.columnNames.count where map.contains(column) {
                if !layout.isKey[column] { try reader.skipValue() }
                try reader.skipValue()
            }
        case .fullUpdate:
            for _ in 0..<layout.columnNames.count { try reader.skipValue() }
            let map = try changedColumns(layout, in: bytes, &reader)
            for column in 0..<layout.columnNames.count where map.contains(column) { try reader.skipValue() }
        case .track, .untrack, .alter, .rebuild, .drop, .captureBreak:
            let length = try reader.varint()
            guard let length = Int(exactly: length) else { throw RecordReader.truncated }
            try reader.skip(length)
        }
    }

    /// The bitmap of changed columns at the reader's position: at least one bit, and none past the last column.
    static func changedColumns(
        _ layout: HistoryLayout, in bytes: UnsafeRawBufferPointer, _ reader: inout RecordReader
    ) throws(HistoryError) -> ColumnMap {
        let start = reader.position
        let count = layout.columnNames.count
        try reader.skip((count + 7) / 8)
        let map = ColumnMap(bytes: UnsafeRawBufferPointer(rebasing: bytes[start..<reader.position]))
        var union: UInt8 = 0
        for byte in map.bytes { union |= byte }
        let isEmpty = union == 0
        let excess = count % 8 == 0 ? 0 : (map.bytes.last ?? 0) >> UInt8(count % 8)
        guard !isEmpty, excess == 0 else {
            throw HistoryError(.damagedHistory, "damaged history: the map of changed columns is not one")
        }
        return map
    }
}

/// A bitmap over columns: bit n % 8 of byte n / 8.
struct ColumnMap {
    let bytes: UnsafeRawBufferPointer

    @inline(__always)
    func contains(_ column: Int) -> Bool { bytes[column >> 3] & (1 << UInt8(column & 7)) != 0 }
}
