/// What the transaction under way has recorded, with the marks that savepoints set in it.
///
/// SQLite numbers savepoints, those of its own statements included, from 0; a mark is live from the moment its
/// savepoint begins until the release, or the rollback to one before it.
final class RecordedChanges {
    /// The encoded records.
    let buffer: RecordBuffer
    private(set) var count = 0
    private(set) var summary = EntitySummary()
    private var marks: [Mark?] = []

    private struct Mark {
        let position: Int
        let count: Int
        let summary: EntitySummary
    }

    init(spillThreshold: Int) { buffer = RecordBuffer(spillThreshold: spillThreshold) }

    var isEmpty: Bool { buffer.isEmpty }

    /// Counts a record that was appended to the buffer.
    @inline(__always)
    func add(_ operation: RecordFormat.Operations, entityID: Int64) {
        if operation != .schema { count += 1 }
        summary.add(operation, entityID: entityID)
    }

    func removeAll() {
        buffer.removeAll()
        count = 0
        summary.removeAll()
        if !marks.isEmpty { marks.removeAll(keepingCapacity: true) }
    }

    func setMark(_ number: Int) {
        releaseMarks(from: number)
        while marks.count < number { marks.append(nil) }
        marks.append(Mark(position: buffer.position, count: count, summary: summary))
    }

    func releaseMarks(from number: Int) {
        if marks.count > number { marks.removeSubrange(number...) }
    }

    /// Forgets what was recorded since the mark was set. A savepoint without a mark is older than the recording.
    func rollBack(to number: Int) {
        releaseMarks(from: number + 1)
        guard number < marks.count, let mark = marks[number] else {
            buffer.rollBack(to: 0)
            count = 0
            summary = EntitySummary()
            return
        }
        buffer.rollBack(to: mark.position)
        count = mark.count
        summary = mark.summary
    }
}
