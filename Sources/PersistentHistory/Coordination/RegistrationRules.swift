/// Where a registration leaves a consumer.
package struct ConsumerPlace: Sendable, Hashable {
    /// Nothing after this sequence is purged before the consumer has acknowledged.
    package let floor: Int64
    /// What it counts as having acknowledged.
    package let acknowledged: HistoryToken?
    /// What becomes of history on its account.
    package let state: ConsumerRecord.State

    /// Makes a place.
    package init(floor: Int64, acknowledged: HistoryToken?, state: ConsumerRecord.State) {
        self.floor = floor
        self.acknowledged = acknowledged
        self.state = state
    }
}

/// How a registration is decided. Pure: the caller reads and writes, in one write transaction.
package enum RegistrationRules {
    /// The consumer's place after it has registered.
    ///
    /// - Parameters:
    ///   - existing: what is known of it; nil where it is new.
    ///   - token: where it reads on; nil where it has no token, or one that is of no use any more.
    ///   - mark: the purge mark; nothing up to there can be promised.
    ///   - head: the newest transaction.
    package static func place(
        of existing: ConsumerRecord?, token: HistoryToken?, mark: HistoryToken, head: HistoryToken
    ) -> ConsumerPlace {
        // It reads on behind its token, or takes a snapshot, which is of the head or later.
        let fresh = (token ?? head).sequence
        guard let existing, existing.state == .active || existing.state == .resyncing else {
            return ConsumerPlace(floor: fresh, acknowledged: nil, state: .active)
        }
        guard existing.state == .active, existing.epoch == head.epoch else {
            // Of the former lineage nothing holds; it has to acknowledge in this one first.
            return ConsumerPlace(floor: fresh, acknowledged: nil, state: existing.state)
        }
        // A purge by force may have passed it.
        let held = min(max(existing.hold, mark.sequence), head.sequence)
        guard let token, token.sequence < held else {
            return ConsumerPlace(floor: held, acknowledged: existing.acknowledged, state: .active)
        }
        // It was rewound: what it has acknowledged further ahead holds no more.
        return ConsumerPlace(
            floor: token.sequence, acknowledged: existing.acknowledged == nil ? nil : token, state: .active)
    }
}

extension ConsumerRecord {
    /// Nothing after this sequence is purged on its account.
    package var hold: Int64 { acknowledged?.sequence ?? floor }
}
