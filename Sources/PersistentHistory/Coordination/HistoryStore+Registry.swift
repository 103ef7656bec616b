internal import FoundationEssentials
internal import TidingsSQLite

/// A consumer's wish to be waited for.
package struct RegistrationRequest: Sendable, Hashable {
    /// The consumer's name.
    package var consumer: String
    /// The author on whose behalf it reads.
    package var author: String
    /// `required` or `optional`.
    package var role: String
    /// Where it reads on; nil where it begins with a snapshot.
    package var token: HistoryToken?
    /// The broker's user who asks; nil is a process that writes into the store itself.
    package var user: String?
    /// The user whom this consumer must have by configuration; nil is whoever registers first.
    package var requiredUser: String?

    /// Makes a request.
    package init(
        consumer: String, author: String, role: String = "required", token: HistoryToken? = nil, user: String? = nil,
        requiredUser: String? = nil
    ) {
        self.consumer = consumer
        self.author = author
        self.role = role
        self.token = token
        self.user = user
        self.requiredUser = requiredUser
    }
}

/// What a registration was answered.
package struct ConsumerRegistration: Sendable, Hashable {
    /// Nothing after this is purged before the consumer has acknowledged.
    package let floor: HistoryToken
    /// What becomes of history on its account.
    package let state: ConsumerRecord.State
    /// True where a user of the broker's has made a consumer theirs that had registered in the store itself: of its claim
    /// to history nothing was taken back.
    package let isClaim: Bool
}

extension HistoryStore {
    /// Registers a consumer, or tells one that is registered its floor: nothing after it is purged before the consumer
    /// has acknowledged. A snapshot is to be read afterwards, at a token that is not before the floor.
    ///
    /// - Throws: ``HistoryError``: `invalidRequest` for a name or role that cannot be used, or where another user of the
    ///   broker's has registered the consumer; `readOnly`, `busy`, `closed`.
    @discardableResult
    package func register(
        consumer: String, author: String, role: String = "required", token: HistoryToken? = nil
    ) async throws -> HistoryToken {
        try await register(RegistrationRequest(consumer: consumer, author: author, role: role, token: token)).floor
    }

    /// Registers a consumer; see ``register(consumer:author:role:token:)``.
    package func register(_ request: RegistrationRequest) async throws -> ConsumerRegistration {
        try request.validate()
        let time = clock.microseconds
        return try await coordinate { database, state in
            try Registry(database: database, state: state, time: time).register(request)
        }
    }

    /// Records that a consumer needs nothing up to a token any more.
    ///
    /// - Throws: ``HistoryError``: `tokenInvalid`, `tokenExpired`; `invalidRequest` where the consumer is not registered,
    ///   lost or evicted.
    package func acknowledge(_ token: HistoryToken, consumer: String) async throws {
        let acknowledgement = Acknowledgement(consumer: consumer, token: token)
        guard case .refused(let refusal)? = try await acknowledge([acknowledgement]).verdicts.first else { return }
        throw refusal.error(for: acknowledgement)
    }

    /// Records acknowledgements in one transaction, the largest of each consumer.
    ///
    /// - Parameters:
    ///   - users: the users of consumers by configuration, over the ones that registered.
    ///   - startsEpoch: whether proof of a lost lineage begins a new epoch, in the same transaction. Then nothing counts
    ///     that was acknowledged before.
    package func acknowledge(
        _ acknowledgements: [Acknowledgement], users: [String: String] = [:], startsEpoch: Bool = false
    ) async throws -> AcknowledgementOutcome {
        let (time, actor) = (clock.microseconds, author)
        return try await coordinate { database, state in
            try Registry(database: database, state: state, time: time)
                .acknowledge(acknowledgements, users: users, epochActor: startsEpoch ? actor : nil)
        }
    }
}

extension HistoryStore {
    /// True where the history does not hold a token that it has held in this epoch, or in a later one: it was lost, or replaced by an older
    /// copy.
    package func hasLost(_ token: HistoryToken) async throws -> Bool {
        try await observe { database, state in try state.hasLost(token, database) }
    }

    /// Begins a new epoch, where the history still does not hold a token that it has held. nil where it does.
    @discardableResult
    package func beginEpoch(afterLosing token: HistoryToken) async throws -> Int64? {
        let (time, actor) = (clock.microseconds, author)
        return try await coordinate { database, state in
            guard try state.hasLost(token, database) else { return nil }
            return try Registry(database: database, state: state, time: time)
                .beginEpoch(
                    after: token.epoch, actor: actor,
                    detail: "sequence \(token.sequence) was seen, and is not there any more")
        }
    }
}

extension StoreState {
    fileprivate func hasLost(_ token: HistoryToken, _ database: Database) throws -> Bool {
        guard token.storeID == storeID else { return false }
        if AcknowledgementRules.isLater(token, than: epoch) { return true }
        guard token.epoch == epoch else { return false }
        do {
            try check(token, database)
            return false
        } catch let error as HistoryError {
            return error.code == .tokenInvalid
        }
    }
}

/// What became of acknowledgements.
package struct AcknowledgementOutcome: Sendable, Hashable {
    /// For each, in order.
    package var verdicts: [AcknowledgementVerdict]
    /// The epoch that has begun, where one has.
    package var newEpoch: Int64?
}

extension RegistrationRequest {
    fileprivate func validate() throws(HistoryError) {
        for (what, name) in [("consumer", consumer), ("author", author)] {
            guard !name.isEmpty, name.utf8.count <= 128,
                name.unicodeScalars.allSatisfy({ $0.value >= 0x20 && $0.value != 0x7F })
            else {
                throw HistoryError(
                    .invalidRequest, "the \(what)'s name must have 1 to 128 bytes, without control characters")
            }
        }
        guard role == "required" || role == "optional" else {
            throw HistoryError(.invalidRequest, "a consumer's role is required or optional")
        }
    }
}

extension AcknowledgementVerdict.Refusal {
    /// What it is to whoever acknowledges in the store itself.
    package func error(for acknowledgement: Acknowledgement) -> HistoryError {
        let (consumer, token) = (acknowledgement.consumer, acknowledgement.token)
        let (code, reason): (HistoryError.Code, String) =
            switch self {
            case .unregistered: (.invalidRequest, "the consumer is not registered: register it first")
            case .inactive: (.invalidRequest, "the consumer is lost or evicted: register it anew")
            case .otherUser: (.invalidRequest, "the consumer belongs to another user of the broker's")
            case .otherStore: (.tokenInvalid, "the token is of another store: resync")
            case .otherEpoch: (.tokenInvalid, "the token is of another epoch: resync")
            case .laterEpoch: (.tokenInvalid, "the store has not reached that epoch, its history was lost: resync")
            case .beyondHead: (.tokenInvalid, "the sequence is beyond the head, its history was lost: resync")
            case .otherNonce: (.tokenInvalid, "the sequence belongs to another transaction now: resync")
            case .expired: (.tokenExpired, "history after it was purged: resync")
            }
        return HistoryError(
            code, "\(consumer) cannot acknowledge sequence \(token.sequence) of epoch \(token.epoch): \(reason)")
    }
}

extension HistoryStore {
    /// Lets history wait for a consumer no more, and records that. It may register anew.
    ///
    /// - Returns: false where there is no such consumer.
    package func evict(consumer name: String) async throws -> Bool {
        let (author, time) = (author, clock.microseconds)
        return try await coordinate { database, _ in
            let sql = "UPDATE history_consumer SET state = 'evicted' WHERE name = ?"
            try database.execute(sql, name)
            guard try database.first("SELECT count(*) FROM history_consumer WHERE name = ?", name, as: Int.self) == 1
            else { return false }
            try database.execute(
                "INSERT INTO history_audit(time, kind, actor, count, detail) VALUES (?, 'evict', ?, 1, ?)", time,
                author,
                "consumer \(name)")
            return true
        }
    }
}
