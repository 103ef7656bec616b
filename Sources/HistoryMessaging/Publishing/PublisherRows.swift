internal import PersistentHistory

/// What a publisher has written into `history_publisher`, and when it is to write again: at most every 250 ms, a
/// heartbeat every two seconds while something is on its way, and nothing while it is idle.
struct PublisherRows {
    static let interval = Duration.milliseconds(250)
    static let heartbeatInterval = Duration.seconds(2)

    /// What was recorded, by origin.
    private(set) var recorded: [String: Int64] = [:]
    /// The last heartbeat: it always grows, whatever the clock does.
    private(set) var heartbeat: Int64 = 0
    private var writtenAt: ContinuousClock.Instant?
    /// Not before: writing has failed.
    private var heldUntil: ContinuousClock.Instant?

    /// When something is to be written; nil where nothing is.
    func due(_ confirmed: [String: Int64], isBusy: Bool) -> ContinuousClock.Instant? {
        let last = writtenAt ?? .now - Self.heartbeatInterval
        let isNew = confirmed.contains { $1 > recorded[$0] ?? 0 }
        guard isNew || isBusy else { return nil }
        let due = last + (isNew ? Self.interval : Self.heartbeatInterval)
        return max(due, heldUntil ?? due)
    }

    /// The rows to write now.
    mutating func next(_ confirmed: [String: Int64], _ origins: Set<String>) -> [PublisherRecord] {
        heartbeat = max(heartbeat + 1, SystemHistoryClock().microseconds)
        return origins.union(confirmed.keys).map {
            PublisherRecord(origin: $0, confirmed: confirmed[$0] ?? 0, heartbeat: heartbeat)
        }
    }

    /// They were written.
    mutating func didWrite(_ records: [PublisherRecord]) {
        for record in records { recorded[record.origin] = record.confirmed }
        writtenAt = .now
        heldUntil = nil
    }

    /// They could not be written now.
    mutating func hold() { heldUntil = .now + .seconds(1) }

    /// Forgets all but the heartbeat.
    mutating func reset() {
        recorded = [:]
        heldUntil = nil
    }

    /// Forgets origins that are no more.
    mutating func keepOnly(_ origins: Set<String>) { recorded = recorded.filter { origins.contains($0.key) } }
}
