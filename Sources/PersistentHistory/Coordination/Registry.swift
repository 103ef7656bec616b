internal import FoundationEssentials
internal import TidingsSQLite

/// What is written about consumers, inside one write transaction of the caller's.
struct Registry {
    let database: Database
    let state: StoreState
    /// The time to note, in microseconds since 1970.
    let time: Int64

    /// Registers a consumer.
    func register(_ request: RegistrationRequest) throws -> ConsumerRegistration {
        let existing = try ConsumerRecord.find(request.consumer, database, state)
        let user = try user(of: existing, for: request)
        let isClaim = isClaim(request, of: existing)
        let head = try state.head(database)
        let place = RegistrationRules.place(
            of: existing, token: try request.token.flatMap(usable), mark: state.mark, head: head)
        try database.execute(
            """
            INSERT INTO history_consumer(
                name, author, role, user, state, floor_sequence, epoch, sequence, nonce, registered, acknowledged)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, NULL)
            ON CONFLICT(name) DO UPDATE SET author = ?2, role = ?3, user = ?4, state = ?5, floor_sequence = ?6,
                epoch = ?7, sequence = ?8, nonce = ?9, registered = ?10
            """,
            request.consumer, isClaim ? existing?.author : request.author,
            isClaim && existing?.role == "required" ? "required" : request.role, user, place.state.rawValue,
            place.floor, state.epoch,
            place.acknowledged?.sequence, place.acknowledged.map { Int64(bitPattern: $0.nonce) }, time)
        return ConsumerRegistration(floor: try token(at: place.floor), state: place.state, isClaim: isClaim)
    }

    /// True where a user of the broker's makes a consumer theirs that has registered in the store itself.
    ///
    /// It may be the consumer, which has a broker now, or somebody else: nothing proves it. So author and role stay, by
    /// which history is held; the floor goes down at the most, as with every registration. Whom the configuration names is
    /// the consumer.
    private func isClaim(_ request: RegistrationRequest, of existing: ConsumerRecord?) -> Bool {
        guard let existing, existing.user == nil, existing.state == .active || existing.state == .resyncing else {
            return false
        }
        return request.user != nil && request.requiredUser == nil
    }

    /// The user whose acknowledgements will count.
    private func user(of existing: ConsumerRecord?, for request: RegistrationRequest) throws(HistoryError) -> String? {
        // Whoever writes into the file can do everything anyway, and an operator's eviction frees the name.
        guard let asking = request.user else { return existing?.user }
        let owner = request.requiredUser ?? (existing?.state == .evicted ? nil : existing?.user)
        guard owner == nil || owner == asking else {
            throw HistoryError(
                .invalidRequest,
                "the consumer \(request.consumer) belongs to another user of the broker's: log in as that one, or evict "
                    + "the consumer first")
        }
        return asking
    }

    /// The token, where reading can go on behind it.
    private func usable(_ token: HistoryToken) throws -> HistoryToken? {
        do {
            try state.check(token, database)
            return token
        } catch let error as HistoryError where error.code == .tokenInvalid || error.code == .tokenExpired {
            return nil
        }
    }

    /// The nonce at a sequence: the mark's, or a transaction's.
    private func nonce(at sequence: Int64) throws -> UInt64? {
        if sequence == state.purgedSequence { return state.purgedNonce }
        return try database.first("SELECT nonce FROM history_transaction WHERE sequence = ?", sequence, as: Int64.self)
            .map { UInt64(bitPattern: $0) }
    }

    private func token(at sequence: Int64) throws -> HistoryToken {
        guard let nonce = try nonce(at: sequence) else {
            throw HistoryError(
                .damagedHistory, "\(database.path): transaction \(sequence) is missing between others: restore a backup"
            )
        }
        return state.token(sequence, nonce)
    }

    // MARK: Acknowledging

    /// Records acknowledgements, the largest of each consumer.
    ///
    /// - Parameter epochActor: who begins a new epoch where a lost lineage is proven; nil does not begin one.
    func acknowledge(
        _ acknowledgements: [Acknowledgement], users: [String: String], epochActor: String?
    ) throws -> AcknowledgementOutcome {
        let rules = AcknowledgementRules(mark: state.mark, head: try state.head(database), users: users)
        var records: [String: ConsumerRecord?] = [:]
        var outcome = AcknowledgementOutcome(verdicts: [])
        var changed: [String: HistoryToken] = [:]
        for acknowledgement in acknowledgements {
            let name = acknowledgement.consumer
            let record = try records[name] ?? ConsumerRecord.find(name, database, state)
            let verdict = rules.judge(
                acknowledgement, of: record, nonce: try nonce(at: acknowledgement.token.sequence))
            records[name] = verdict == .recorded ? record?.acknowledging(acknowledgement.token, at: time) : record
            if verdict == .recorded { changed[name] = acknowledgement.token }
            outcome.verdicts.append(verdict)
        }
        if let epochActor, let epoch = try beginEpoch(provenBy: acknowledgements, outcome.verdicts, epochActor) {
            outcome.newEpoch = epoch
            // All others were of the former one.
            outcome.verdicts = outcome.verdicts.map {
                $0 == .recorded || $0 == .known ? .refused(.otherEpoch) : $0
            }
            return outcome
        }
        for (name, token) in changed { try record(token, of: name) }
        return outcome
    }

    private func record(_ token: HistoryToken, of consumer: String) throws {
        try database.execute(
            """
            UPDATE history_consumer SET state = 'active', epoch = ?, sequence = ?, nonce = ?, acknowledged = ?
            WHERE name = ?
            """, token.epoch, token.sequence, Int64(bitPattern: token.nonce), time, consumer)
    }

    // MARK: Epochs

    /// How long nobody's word of a later epoch begins another one after one has: two copies of a store that work side by side
    /// at one broker would else outbid each other for ever.
    private static let outbidding: Int64 = 3_600_000_000

    /// Begins a new epoch where an acknowledgement proves that history was lost, after the newest that is proven.
    private func beginEpoch(
        provenBy acknowledgements: [Acknowledgement], _ verdicts: [AcknowledgementVerdict], _ actor: String
    ) throws -> Int64? {
        var proof: (acknowledgement: Acknowledgement, refusal: AcknowledgementVerdict.Refusal)?
        for (acknowledgement, verdict) in zip(acknowledgements, verdicts) {
            guard case .refused(let refusal) = verdict, refusal.provesLostLineage,
                acknowledgement.token.epoch > proof?.acknowledgement.token.epoch ?? 0
            else { continue }
            if refusal == .laterEpoch, try hasBeenOutbid() { continue }
            proof = (acknowledgement, refusal)
        }
        guard let (acknowledgement, refusal) = proof else { return nil }
        let (name, token) = (acknowledgement.consumer, acknowledgement.token)
        return try beginEpoch(
            after: token.epoch, actor: actor,
            detail: "\(name) acknowledged sequence \(token.sequence): \(refusal.rawValue)")
    }

    private func hasBeenOutbid() throws -> Bool {
        let sql =
            "SELECT 1 FROM history_audit WHERE kind = 'epoch' AND detail LIKE '%: laterEpoch' AND time > ? LIMIT 1"
        return try database.first(sql, time - Self.outbidding, as: Int64.self) != nil
    }

    /// Begins a new epoch: every token that was handed out is invalid, every consumer has to acknowledge anew.
    ///
    /// - Parameter lost: the epoch of what was lost: the new one is later, so that no token of it is met again.
    func beginEpoch(after lost: Int64, actor: String, detail: String) throws -> Int64 {
        let epoch = max(state.epoch, lost) + 1
        let head = try state.head(database).sequence
        try database.execute(
            "UPDATE history_store SET epoch = ?, published_sequence = min(published_sequence, ?) WHERE id = 1", epoch,
            head)
        try database.execute(
            """
            UPDATE history_consumer SET sequence = NULL, nonce = NULL, acknowledged = NULL,
                floor_sequence = min(floor_sequence, ?), state = iif(state = 'active', 'resyncing', state)
            """, head)
        try database.execute(
            "INSERT INTO history_audit(time, kind, actor, count, detail) VALUES (?, 'epoch', ?, ?, ?)", time, actor,
            epoch, detail)
        return epoch
    }
}

extension ConsumerRecord {
    /// The record, once the consumer has acknowledged a token.
    func acknowledging(_ token: HistoryToken, at time: Int64) -> ConsumerRecord {
        ConsumerRecord(
            name: name, author: author, role: role, user: user, state: .active, floor: floor, epoch: token.epoch,
            acknowledged: token, registeredAt: registeredAt, acknowledgedAt: time)
    }
}
