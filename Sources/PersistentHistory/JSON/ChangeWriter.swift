/// Writes changes as JSON straight from their encoded bytes, as ``JSONWriter/change(_:)`` writes decoded ones: nothing is
/// allocated for a change but what its reals take to print.
///
/// Stops at a limit before it writes the value that would pass it, so that memory stays within a few times the limit
/// (a control character takes six bytes in JSON) however large a value is.
package struct ChangeWriter {
    /// What is written to, between changes as well.
    package var json = JSONWriter()
    private let limit: Int
    /// By column: the offset of the value in the change's bytes, or that there is none.
    private var old: [Int] = []
    private var new: [Int] = []
    /// Columns, in ascending order.
    private var changed: [Int] = []
    private var isRedacted: [Bool] = []
    private var hasRedacted = false
    private var isFullImage = false

    private static let none = -1

    /// - Parameter limit: the most bytes that `json` may come to.
    package init(limit: Int) { self.limit = limit }

    /// Writes a change as the next element; false where it passes the limit, and then half of it may be there.
    ///
    /// - Throws: `damagedHistory`.
    package mutating func write(_ change: HistoryChange) throws(HistoryError) -> Bool {
        try change.context.scan { bytes throws(HistoryError) in
            try locate(change, bytes)
            guard try write(change, bytes) else { return false }
            return json.bytes.count <= limit
        }
    }

    // MARK: Where the values lie

    private mutating func locate(_ change: HistoryChange, _ bytes: UnsafeRawBufferPointer) throws(HistoryError) {
        let layout = change.layout
        var reader = RecordReader(bytes, from: change.body.lowerBound, to: change.body.upperBound)
        reset(columns: layout.columnNames.count)
        switch change.kind {
        case .insert:
            for column in new.indices { new[column] = try place(column, &reader) }
        case .delete:
            for column in layout.tombstoneColumns { old[column] = try place(column, &reader) }
        case .update:
            for column in layout.keyColumns { old[column] = try place(column, &reader) }
            let map = try ChangeScanner.changedColumns(layout, in: bytes, &reader)
            for column in new.indices where map.contains(column) {
                changed.append(column)
                if !layout.isKey[column] { old[column] = try place(column, &reader) }
                new[column] = try place(column, &reader)
            }
        case .fullUpdate:
            isFullImage = true
            for column in old.indices { old[column] = try place(column, &reader) }
            let map = try ChangeScanner.changedColumns(layout, in: bytes, &reader)
            for column in new.indices where map.contains(column) {
                changed.append(column)
                new[column] = try place(column, &reader)
            }
        case .track, .untrack, .alter, .rebuild, .drop, .captureBreak: break
        }
    }

    private mutating func reset(columns count: Int) {
        if old.count == count {
            for column in 0..<count {
                old[column] = Self.none
                new[column] = Self.none
            }
        } else {
            old = Array(repeating: Self.none, count: count)
            new = old
            isRedacted = Array(repeating: false, count: count)
        }
        if hasRedacted {
            isRedacted = Array(repeating: false, count: count)
            hasRedacted = false
        }
        changed.removeAll(keepingCapacity: true)
        isFullImage = false
    }

    /// Skips a value; its offset, or none for a redacted one.
    private mutating func place(_ column: Int, _ reader: inout RecordReader) throws(HistoryError) -> Int {
        let start = reader.position
        guard try reader.skipValueTellingRedaction() else { return start }
        isRedacted[column] = true
        hasRedacted = true
        return Self.none
    }

    // MARK: Writing them

    private mutating func write(
        _ change: HistoryChange, _ bytes: UnsafeRawBufferPointer
    ) throws(HistoryError) -> Bool {
        let layout = change.layout
        let operation = change.operation
        json.beginObject()
        json.member("entity", layout.entity)
        json.member("op", operation.rawValue)
        json.key("key")
        let identity = operation == .insert ? new : old
        guard try write(layout.keyColumns, of: identity, layout, bytes) else { return false }
        json.key("before")
        switch operation {
        case .insert: json.null()
        case .update where !isFullImage: guard try write(changed, of: old, layout, bytes) else { return false }
        case .update, .delete: guard try write(old.indices, of: old, layout, bytes) else { return false }
        }
        json.key("after")
        switch operation {
        case .delete: json.null()
        case .insert, .update: guard try write(new.indices, of: new, layout, bytes) else { return false }
        }
        json.key("changed")
        writeNames(of: changed, layout)
        if hasRedacted {
            json.key("redacted")
            writeNames(of: isRedacted.indices.lazy.filter { [isRedacted] in isRedacted[$0] }, layout)
        }
        json.endObject()
        return true
    }

    private mutating func writeNames(of columns: some Sequence<Int>, _ layout: HistoryLayout) {
        json.beginArray()
        for column in columns { json.string(layout.columnNames[column]) }
        json.endArray()
    }

    /// Writes the columns' values as an object, of those that are there.
    private mutating func write(
        _ columns: some Collection<Int>, of places: [Int], _ layout: HistoryLayout, _ bytes: UnsafeRawBufferPointer
    ) throws(HistoryError) -> Bool {
        json.beginObject()
        for column in columns where places[column] != Self.none {
            json.key(layout.columnNames[column])
            var reader = RecordReader(bytes, from: places[column], to: bytes.count)
            guard try write(reader.storedValue(), bytes) else { return false }
        }
        json.endObject()
        return true
    }

    /// Writes a value; false where its bytes alone pass the limit.
    @inline(__always)
    private mutating func write(_ value: StoredValue, _ bytes: UnsafeRawBufferPointer) -> Bool {
        switch value {
        case .null, .redacted: json.null()
        case .integer(let number): json.value(integer: number)
        case .real(let number): json.value(real: number)
        case .text(let range), .blob(let range):
            guard json.bytes.count + range.count <= limit else { return false }
            let content = UnsafeRawBufferPointer(rebasing: bytes[range])
            if case .text = value { json.value(text: content) } else { json.value(blob: content) }
        }
        return true
    }
}
