internal import PersistentHistory

/// Why a message counts for nothing.
struct MessageRefusal: Sendable, Hashable, Error {
    /// The kind of reason, as it appears in headers, announcements and counts.
    enum Reason: String, Sendable, Hashable {
        /// It came by another exchange, or straight into the queue.
        case foreignExchange
        /// Nobody vouches for its sender.
        case noUser
        /// It is larger than any of its kind.
        case oversized
        /// It is of a version that this one does not know.
        case foreignVersion
        /// It cannot be read.
        case malformed
        /// It was sent under another's key.
        case otherKey
        /// Its sender may not give this command.
        case notAllowed
        case unregistered, inactive, otherUser, otherStore, otherEpoch, laterEpoch, beyondHead, otherNonce, expired

        init(_ refusal: AcknowledgementVerdict.Refusal) {
            self =
                switch refusal {
                case .unregistered: .unregistered
                case .inactive: .inactive
                case .otherUser: .otherUser
                case .otherStore: .otherStore
                case .otherEpoch: .otherEpoch
                case .laterEpoch: .laterEpoch
                case .beyondHead: .beyondHead
                case .otherNonce: .otherNonce
                case .expired: .expired
                }
        }
    }

    let reason: Reason
    /// What is wrong, in words.
    let message: String
    /// The consumer that it says it is of.
    var consumer: String?

    init(_ reason: Reason, _ message: String, consumer: String? = nil) {
        self.reason = reason
        self.message = message
        self.consumer = consumer
    }
}
