/// The origins that have written through a store, each with the last sequence that it wrote.
struct WrittenOrigins {
    /// The one that wrote last: mostly the same as before, and then nothing else is touched.
    private var latest: (origin: HistoryOrigin, sequence: Int64)?
    private var others: [HistoryOrigin: Int64] = [:]
    /// Another number than before means that an origin has come or gone.
    private(set) var generation = 0

    /// A transaction was committed.
    @inline(__always)
    mutating func note(_ origin: HistoryOrigin, _ sequence: Int64) {
        // The same storage, mostly: equal without looking at a byte.
        if latest?.origin == origin {
            latest?.sequence = sequence
        } else {
            replaceLatest(origin, sequence)
        }
    }

    private mutating func replaceLatest(_ origin: HistoryOrigin, _ sequence: Int64) {
        if let latest { others[latest.origin] = latest.sequence }
        if others.removeValue(forKey: origin) == nil { generation += 1 }
        latest = (origin, sequence)
    }

    /// All of them, in no order.
    var all: [HistoryOrigin] { others.keys + (latest.map { [$0.origin] } ?? []) }

    /// Forgets those that have written nothing after a sequence.
    mutating func forget(through sequence: Int64) {
        let before = others.count + (latest == nil ? 0 : 1)
        others = others.filter { $0.value > sequence }
        if let last = latest, last.sequence <= sequence { latest = nil }
        if others.count + (latest == nil ? 0 : 1) != before { generation += 1 }
    }
}
