internal import TidingsSQLite

/// Turns rows that are about to change into records. Called inside the preupdate hook, once a row: allocates
/// nothing, runs no SQL.
struct ChangeEncoder {
    let buffer: RecordBuffer
    /// Whether a buffer that is empty is given the format's version first, as the start of a transaction.
    var startsTransaction = true

    /// Encodes an insert.
    @inline(__always)
    func insert(_ change: borrowing PreupdateChange, _ plan: CapturePlan) {
        begin(.insert, plan)
        for column in plan.columns {
            append(CapturePlan.settled(change.new(at: column.inserted), column), column)
        }
    }

    /// Encodes a delete.
    @inline(__always)
    func delete(_ change: borrowing PreupdateChange, _ plan: CapturePlan) {
        begin(.delete, plan)
        for index in plan.tombstoneColumns {
            let column = plan.columns[index]
            append(plan.old(column, change), column)
        }
    }

    /// Encodes an update; false where no recorded column changes, and then nothing is encoded.
    @inline(__always)
    func update(_ change: borrowing PreupdateChange, _ plan: CapturePlan) -> Bool {
        let columns = plan.columns
        var hasChanged = false
        for index in columns.indices {
            let column = columns[index]
            let old = plan.old(column, change)
            let new = CapturePlan.settled(change.new(at: column.updated), column)
            plan.oldRow[index] = old
            plan.newRow[index] = new
            if !hasChanged, !old.isIdentical(to: new) { hasChanged = true }
        }
        guard hasChanged else { return false }
        let isFull = plan.recordsFullImage || hasNullKey(plan)
        let map = beginUpdate(plan, isFull: isFull)
        for index in columns.indices {
            let old = plan.oldRow[index]
            let new = plan.newRow[index]
            guard !old.isIdentical(to: new) else { continue }
            buffer.setBits(1 << UInt8(index & 7), at: map + index >> 3)
            let column = columns[index]
            if !isFull, !column.isKey { append(old, column) }
            append(new, column)
        }
        return true
    }

    /// Encodes an update of one column up to its new value, which ``finishBlobUpdate`` appends when it is known.
    func beginBlobUpdate(_ change: borrowing PreupdateChange, _ plan: CapturePlan, column index: Int) {
        for position in plan.columns.indices { plan.oldRow[position] = plan.old(plan.columns[position], change) }
        let isFull = plan.recordsFullImage || hasNullKey(plan)
        let map = beginUpdate(plan, isFull: isFull)
        buffer.setBits(1 << UInt8(index & 7), at: map + index >> 3)
        if !isFull { append(plan.oldRow[index], plan.columns[index]) }
    }

    /// Encodes a record about a table itself: its layout from here on, and a detail for people.
    func schema(_ kind: RecordFormat.Kind, _ layout: HistoryLayout, detail: String = "") {
        start(kind, layout)
        var text = detail
        text.withUTF8 { utf8 in
            buffer.append(varint: UInt64(utf8.count))
            buffer.append(bytes: UnsafeRawBufferPointer(utf8))
        }
    }

    /// A key with a NULL in it may name several rows: such an update records the whole row, so that it stays exact.
    private func hasNullKey(_ plan: CapturePlan) -> Bool {
        for index in plan.keyColumns where plan.oldRow[index].storageClass == 5 { return true }
        return false
    }

    /// Encodes the identity of an update and an empty map of changed columns; returns the map's offset.
    private func beginUpdate(_ plan: CapturePlan, isFull: Bool) -> Int {
        begin(isFull ? .fullUpdate : .update, plan)
        if isFull {
            for index in plan.columns.indices { append(plan.oldRow[index], plan.columns[index]) }
        } else {
            for index in plan.keyColumns { append(plan.oldRow[index], plan.columns[index]) }
        }
        let map = buffer.count
        let length = (plan.columns.count + 7) / 8
        let start = buffer.reserve(length)
        start.initializeMemory(as: UInt8.self, repeating: 0, count: length)
        buffer.advance(to: start + length)
        return map
    }

    @inline(__always)
    private func begin(_ kind: RecordFormat.Kind, _ plan: CapturePlan) {
        start(kind, plan.layout)
    }

    @inline(__always)
    private func start(_ kind: RecordFormat.Kind, _ layout: HistoryLayout) {
        if buffer.isEmpty, startsTransaction { buffer.append(byte: RecordFormat.version) }
        buffer.append(byte: kind.rawValue)
        buffer.append(varint: UInt64(bitPattern: layout.id))
    }

    @inline(__always)
    private func append(_ value: BorrowedValue, _ column: CapturePlan.Column) {
        if column.isRedacted {
            buffer.append(byte: UInt8(RecordFormat.redactedSerialType))
        } else {
            buffer.append(value)
        }
    }
}
