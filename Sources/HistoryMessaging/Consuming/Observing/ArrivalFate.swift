internal import PersistentHistory

/// What becomes of a delivery once the consumer has come so far.
enum ArrivalFate: Sendable, Hashable {
    /// What it tells of is merged, or of no use any more: acked.
    case merged
    /// It tells of what the store did not hold when it had come: acked, and counted.
    case beyondHead
    /// It is still to be merged.
    case stays

    /// Decides.
    ///
    /// - Parameters:
    ///   - arrived: what it tells of.
    ///   - token: up to where everything is merged, durably.
    ///   - head: how far the store went after it had come; nil where that is not known.
    init(of arrived: HistoryToken, through token: HistoryToken, head: HistoryToken?) {
        if (arrived.epoch, arrived.sequence) <= (token.epoch, token.sequence) {
            self = .merged
        } else if let head, (arrived.epoch, arrived.sequence) > (head.epoch, head.sequence) {
            self = .beyondHead
        } else {
            self = .stays
        }
    }
}
