internal import PersistentHistory
internal import TidingsAMQP

/// How a consumer and its contexts find their places: at the start, after a token was lost, and on somebody's word.
extension HistoryMerger {
    /// Finds the places at the start of a run.
    ///
    /// Throws `damagedToken` where the token's file cannot be read and a context cannot be loaded anew; and what loading
    /// throws, to be tried again.
    func begin(_ found: TokenFile.Found) async throws {
        var damage: String?
        switch found {
        case .nothing: shared = nil
        case .stored(let stored): (shared, reloadedThrough) = (stored.token, stored.reloadedThrough)
        case .damaged(let text):
            guard !members.isEmpty, members.allSatisfy(\.context.canLoad) else { throw damaged(text) }
            damage = "the token's file is damaged: \(text)"
            shared = nil
        }
        for index in members.indices {
            members[index].exclusion = HistoryExclusion()
            members[index].position = try await members[index].context.durableToken()
        }
        try await place(damage: damage)
    }

    /// Finds new places for those whose tokens cannot be used any more.
    ///
    /// - Returns: false where all can be used.
    func resync() async throws -> Bool { try await place(damage: nil, onlyIfLost: true) }

    /// Moves the consumer's token, and with it the hooks and the contexts that have none of their own; to a snapshot, every
    /// context that can be loaded.
    func rewind(to start: HistoryConsumer.Start) async throws {
        if case .after(let token) = start { try await store.validate(token) }
        let place = PlacementPlan.Place(start)
        let places = members.map { member -> PlacementPlan.Place in
            if member.context.canLoad { return place == .snapshot ? .snapshot : .stay }
            return member.context.isDurable ? .stay : .shared
        }
        _ = try await carryOut(shared: place, members: places)
        options.log(.info, "rewound", [("to", shared?.description ?? "")])
    }

    @discardableResult
    private func place(damage: String?, onlyIfLost: Bool = false) async throws -> Bool {
        var (sharedStanding, kinds, examination) = try await examine(damage)
        if let invalid = examination.invalid {
            // Nobody else may know. Once a new epoch has begun, no token of this one can be used.
            if try await store.hasLost(invalid) { try await prove(invalid) }
            let first = examination
            (sharedStanding, kinds, examination) = try await examine(damage)
            (examination.reason, examination.lost) = (first.reason, first.lost)
        }
        if onlyIfLost, sharedStanding != .lost, !kinds.contains(where: { $0.standing == .lost }) { return false }
        let plan = PlacementPlan(shared: sharedStanding, members: kinds, start: options.start)
        let loaded = try await carryOut(shared: plan.shared, members: plan.members)
        guard let reason = examination.reason else { return true }
        let missed = zip(members, kinds).filter { _, kind in
            !kind.canLoad && (kind.standing == .lost || (!kind.isDurable && sharedStanding == .lost))
        }.map(\.0.context.name)
        await announce(
            reason, examination.lost, reloaded: loaded, missed: missed,
            isLoss: sharedStanding == .lost || !missed.isEmpty)
        return true
    }

    /// How the consumer's token and those of the contexts stand.
    private func examine(
        _ damage: String?
    ) async throws -> (PlacementPlan.Standing, [PlacementPlan.Member], TokenExamination) {
        var examination = TokenExamination(store: store, reason: damage)
        let sharedStanding = try await examination.standing(of: shared)
        var kinds: [PlacementPlan.Member] = []
        for member in members {
            var standing = try await examination.standing(of: member.position)
            if standing == .good, member.exclusion.through.isEmpty, isBehindReload(member) { standing = .missing }
            if damage != nil, member.context.canLoad { standing = .lost }
            kinds.append(
                PlacementPlan.Member(
                    isDurable: member.context.isDurable, canLoad: member.context.canLoad, standing: standing))
        }
        return (damage == nil ? sharedStanding : .lost, kinds, examination)
    }

    /// True where the context may hold rows that are newer than its token, as a crash left it.
    private func isBehindReload(_ member: Member) -> Bool {
        member.context.isDurable && member.context.canLoad && (member.position?.sequence ?? .max) < reloadedThrough
    }

    /// Loads and moves.
    ///
    /// - Returns: the names of the contexts that were loaded.
    private func carryOut(shared place: PlacementPlan.Place, members places: [PlacementPlan.Place]) async throws
        -> [String]
    {
        let loading = members.indices.filter { places[$0] == .snapshot && members[$0].context.canLoad }
        var snapshot: HistoryToken?
        if !loading.isEmpty {
            let contexts = loading.map { members[$0].context }
            snapshot = try await store.withSnapshot { snapshot in
                for context in contexts { try await context.load(snapshot) }
                return snapshot.token
            }
        }
        for index in loading { move(index, to: snapshot) }
        let own = try await token(of: place, snapshot: snapshot) ?? shared
        // Moved once the token is durable: else hooks, and those who keep no token, would go on elsewhere than the file says.
        var moved: [Int: HistoryToken] = [:]
        for index in members.indices where !loading.contains(index) {
            guard let token = try await places[index] == .shared ? own : token(of: places[index], snapshot: snapshot)
            else { continue }
            moved[index] = token
            // A durable context learns where it stands now: it could else take what comes for what it has.
            guard members[index].context.isDurable else { continue }
            try await members[index].context.merge(HistoryBatch([], through: token))
            move(index, to: token)
        }
        let isHalfReloaded = members.indices.contains { index in
            !loading.contains(index) && isBehindReload(members[index])
        }
        let reloaded = isHalfReloaded ? reloadedThrough : 0
        try await remember(StoredToken(token: own, reloadedThrough: reloaded))
        for (index, token) in moved { move(index, to: token) }
        (shared, reloadedThrough) = (own, reloaded)
        return loading.map { members[$0].context.name }
    }

    private func move(_ index: Int, to token: HistoryToken?) {
        members[index].position = token
        members[index].exclusion = HistoryExclusion()
    }

    /// The token of a place; nil where nothing moves.
    private func token(of place: PlacementPlan.Place, snapshot: HistoryToken?) async throws -> HistoryToken? {
        switch place {
        case .stay, .shared: nil
        case .snapshot: if let snapshot { snapshot } else { try await store.currentToken() }
        case .oldest: try await store.oldestToken()
        case .head: try await store.currentToken()
        case .after(let token): token
        }
    }

    private func announce(
        _ reason: String, _ lost: HistoryToken?, reloaded: [String], missed: [String], isLoss: Bool
    ) async {
        guard let shared else { return }
        let resync = HistoryResync(reason: reason, lost: lost, token: shared, reloaded: reloaded, missed: missed)
        board.count {
            $0.resyncs += 1
            if isLoss { $0.losses += 1 }
        }
        options.log(
            .warning, "resynced: \(reason)",
            [
                ("lost", lost?.description ?? ""), ("token", shared.description),
                ("reloaded", reloaded.joined(separator: ",")), ("missed", missed.joined(separator: ",")),
            ])
        for (_, call) in hooks.withLock({ $0.resyncing }) { await call(resync) }
    }

    private func damaged(_ text: String) -> MessagingError {
        let names = members.filter { !$0.context.canLoad }.map(\.context.name)
        let who = names.isEmpty ? "hooks" : "the contexts \(names.joined(separator: ", "))"
        return MessagingError(
            .damagedToken,
            "the token's file is damaged (\(text)), and \(who) cannot be loaded anew: restore it from a backup, or delete "
                + "it to begin at the configured start, knowing that what was merged comes again")
    }
}

/// Which tokens can still be used; each is asked for once.
private struct TokenExamination {
    let store: HistoryStore
    /// Why the first one that cannot be used cannot.
    var reason: String?
    /// That one.
    var lost: HistoryToken?
    /// The newest of those that the history does not hold, or not any more; purged ones are none.
    var invalid: HistoryToken?
    private var known: [HistoryToken: Bool] = [:]

    init(store: HistoryStore, reason: String?) {
        self.store = store
        self.reason = reason
    }

    mutating func standing(of token: HistoryToken?) async throws -> PlacementPlan.Standing {
        guard let token else { return .missing }
        if let isGood = known[token] { return isGood ? .good : .lost }
        do {
            try await store.validate(token)
            known[token] = true
            return .good
        } catch let error as HistoryError where error.code == .tokenExpired || error.code == .tokenInvalid {
            known[token] = false
            reason = reason ?? error.description
            lost = lost ?? token
            if error.code == .tokenInvalid { invalid = max(invalid ?? token, token) }
            return .lost
        }
    }
}
