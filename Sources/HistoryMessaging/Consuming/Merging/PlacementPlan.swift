internal import PersistentHistory

/// Where a consumer and each of its contexts go on: decided from what is known of their tokens.
struct PlacementPlan: Sendable, Hashable {
    /// What a token is worth.
    enum Standing: Sendable, Hashable {
        /// There is none.
        case missing
        /// It stands in the history, and nothing after it was purged.
        case good
        /// It cannot be used any more.
        case lost
    }

    /// Where to go on.
    enum Place: Sendable, Hashable {
        /// Where it is.
        case stay
        /// At a snapshot's token; a context is loaded with it.
        case snapshot
        /// At the oldest token.
        case oldest
        /// At the newest.
        case head
        /// After this one.
        case after(HistoryToken)
        /// Where the consumer itself goes on.
        case shared
    }

    /// What the plan has to know of a context.
    struct Member: Sendable, Hashable {
        let isDurable: Bool
        let canLoad: Bool
        let standing: Standing
    }

    /// Where the consumer's own token goes: that of hooks, and of contexts that have none of their own.
    let shared: Place
    /// Where each context goes.
    let members: [Place]

    /// Plans.
    ///
    /// - Parameter start: what was asked for; nil is the default.
    init(shared standing: Standing, members: [Member], start: HistoryConsumer.Start?) {
        let canLoadAll = !members.isEmpty && members.allSatisfy(\.canLoad)
        let start = start ?? (members.contains(where: \.canLoad) ? .snapshot : .beginning)
        let first = Place(start)
        switch standing {
        case .good: shared = .stay
        case .missing: shared = first
        case .lost: shared = canLoadAll ? .snapshot : .oldest
        }
        self.members = members.map { member in
            switch (member.standing, member.canLoad, member.isDurable) {
            case (.good, _, _): .stay
            case (.lost, true, _): .snapshot
            // Its memory is gone with the process: there is no other way to have it whole.
            case (.missing, true, false): .snapshot
            case (.missing, true, true): standing == .missing ? first : .snapshot
            case (.lost, false, true): .oldest
            case (.missing, false, true): first == .snapshot ? .shared : first
            case (_, false, false): .shared
            }
        }
    }
}

extension PlacementPlan.Place {
    /// The place that is asked for.
    init(_ start: HistoryConsumer.Start) {
        self =
            switch start {
            case .snapshot: .snapshot
            case .beginning: .oldest
            case .now: .head
            case .after(let token): .after(token)
            }
    }
}
