public import PersistentHistory

/// What a cleaning has removed, or would remove.
public struct CleaningReport: Sendable, Hashable {
    /// The number of transactions.
    public let count: Int
    /// The first transaction that stays, or the purge mark; nil where nothing may be cleaned.
    public let bound: HistoryToken?
    /// The consumers that hold the history from there on.
    public let holders: [String]
    /// True where a mirror author's transaction holds it.
    public let isHeldByMirror: Bool
    /// What blocks cleaning, or has ended it early.
    public let obstacles: [PurgeObstacle]

    init(_ outcome: CleaningOutcome) {
        count = outcome.count
        bound = outcome.decision.bound
        holders = outcome.decision.holders
        isHeldByMirror = outcome.decision.isHeldByMirror
        obstacles = outcome.decision.obstacles
    }

    /// Names the obstacles, a few of them; nil where there are none.
    var reason: String? {
        guard !obstacles.isEmpty else { return nil }
        let first = obstacles.prefix(3).map(\.description).joined(separator: "; ")
        return obstacles.count > 3 ? "\(first); and \(obstacles.count - 3) more" : first
    }
}
