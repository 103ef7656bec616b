/// An acknowledgement: a consumer needs nothing up to a token any more.
package struct Acknowledgement: Sendable, Hashable {
    /// The consumer.
    package let consumer: String
    /// Up to where.
    package let token: HistoryToken
    /// Who says so.
    package let sender: Sender

    /// Who sends an acknowledgement.
    package enum Sender: Sendable, Hashable {
        /// A process that writes into the store itself.
        case store
        /// A user of the broker's.
        case user(String)
    }

    /// Makes an acknowledgement.
    package init(consumer: String, token: HistoryToken, sender: Sender = .store) {
        self.consumer = consumer
        self.token = token
        self.sender = sender
    }
}

/// What becomes of an acknowledgement.
package enum AcknowledgementVerdict: Sendable, Hashable {
    /// It is further than the consumer's last one.
    case recorded
    /// It says nothing new.
    case known
    /// It does not count.
    case refused(Refusal)

    /// Why an acknowledgement does not count.
    package enum Refusal: String, Sendable, Hashable, CaseIterable {
        /// No consumer of this name is registered.
        case unregistered
        /// The consumer is lost or evicted: it has to register anew.
        case inactive
        /// Another user than the consumer's.
        case otherUser
        /// Another store.
        case otherStore
        /// Another epoch: an earlier one, or one that cannot be.
        case otherEpoch
        /// An epoch that the store has not reached.
        case laterEpoch
        /// A sequence that the history has not reached.
        case beyondHead
        /// The sequence belongs to another transaction.
        case otherNonce
        /// Behind the purge mark, where nothing can be proven any more.
        case expired

        /// True where a consumer has seen history that this store does not have: it was lost, or replaced by an older
        /// copy.
        package var provesLostLineage: Bool { self == .beyondHead || self == .otherNonce || self == .laterEpoch }
    }
}

/// How an acknowledgement is judged. Pure: the caller reads and writes, in one write transaction.
package struct AcknowledgementRules: Sendable {
    /// The purge mark.
    package let mark: HistoryToken
    /// The newest transaction.
    package let head: HistoryToken
    /// The users of consumers, where they are configured: they stand over the ones that registered.
    package let users: [String: String]

    /// How far an epoch can be ahead: whoever forges one cannot bring the epochs to their end.
    private static let longestLead: Int64 = 1000

    /// True where a token is of an epoch that a store can have had, and has not any more.
    static func isLater(_ token: HistoryToken, than epoch: Int64) -> Bool {
        token.epoch > epoch && token.epoch - epoch < longestLead
    }

    /// Rules for one moment of a store.
    package init(mark: HistoryToken, head: HistoryToken, users: [String: String] = [:]) {
        self.mark = mark
        self.head = head
        self.users = users
    }

    /// Judges an acknowledgement.
    ///
    /// - Parameters:
    ///   - record: what is known of its consumer.
    ///   - nonce: the nonce of the transaction, or of the mark, at the acknowledged sequence; nil where there is none.
    package func judge(
        _ acknowledgement: Acknowledgement, of record: ConsumerRecord?, nonce: UInt64?
    ) -> AcknowledgementVerdict {
        guard let record else { return .refused(.unregistered) }
        if case .user(let user) = acknowledgement.sender {
            // Whoever registered in the store itself has told no user: nobody speaks for it before a user has claimed it.
            guard user == users[record.name] ?? record.user else { return .refused(.otherUser) }
        }
        guard record.state == .active || record.state == .resyncing else { return .refused(.inactive) }
        let token = acknowledgement.token
        guard token.storeID == head.storeID else { return .refused(.otherStore) }
        guard token.epoch == head.epoch else {
            return .refused(Self.isLater(token, than: head.epoch) ? .laterEpoch : .otherEpoch)
        }
        guard token.sequence <= head.sequence else { return .refused(.beyondHead) }
        let isKnown = record.acknowledged.map { $0.epoch == head.epoch && $0.sequence >= token.sequence } ?? false
        guard token.sequence >= mark.sequence, let nonce else { return isKnown ? .known : .refused(.expired) }
        guard token.nonce == nonce else { return .refused(.otherNonce) }
        return isKnown ? .known : .recorded
    }
}
