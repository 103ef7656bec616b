internal import PersistentHistory
internal import TidingsAMQP

/// Messages that go together: a part of a window.
struct OutgoingBatch: Sendable {
    var publications: [AMQPPublication] = []
    var sequences: [Int64] = []
    var origins: [String] = []
    /// The token of the last one.
    var last: HistoryToken?
    var bytes = 0
}

/// Called with the sequences of a batch before it is handed to the broker, where a test has asked for it.
package typealias SendObserver = @Sendable ([Int64]) -> Void

/// Makes transactions durable, and messages of them.
struct Outbox {
    private let store: HistoryStore
    private let names: BrokerNames
    private let flusher: LogFlusher?
    private let batch: AMQPPublisher.Window
    private var encoder: HistoryMessageEncoder
    /// How many messages had to leave their changes out.
    private(set) var thin = 0

    /// - Parameters:
    ///   - window: what may be unanswered; a batch is half of it, so that one is on its way while the next is made.
    ///   - isDurable: true where every commit that is to be published is on the disk already.
    init(
        _ store: HistoryStore, _ broker: Broker, window: AMQPPublisher.Window, messageLimit: Int, isDurable: Bool
    ) throws {
        self.store = store
        names = broker.names(for: store)
        flusher = isDurable ? nil : try LogFlusher(store)
        batch = AMQPPublisher.Window(messages: max(1, window.messages / 2), bytes: max(1, window.bytes / 2))
        // What the connection would refuse could never be sent.
        let limit = min(messageLimit, broker.configuration?.maximumMessageSize ?? messageLimit)
        encoder = HistoryMessageEncoder(names: names, user: broker.user, limit: limit)
    }

    /// Makes all that was committed before durable: nothing may be published that a power loss can take back.
    func flush() async throws { try await flusher?.flush() }

    /// Begins to count anew.
    mutating func forgetCounts() { thin = 0 }

    /// Encodes transactions and hands them on in batches. What was encoded before an error is handed on before it is
    /// thrown.
    ///
    /// - Parameter start: the token that they were read after.
    mutating func send(
        _ transactions: [HistoryTransaction], after start: HistoryToken,
        _ deliver: (OutgoingBatch) async throws -> Void
    ) async throws {
        let nonces = try await previousNonces(of: transactions.map(\.token), after: start)
        var next = OutgoingBatch()
        do {
            for (transaction, nonce) in zip(transactions, nonces) {
                try await append(transaction, nonce, to: &next)
                guard next.publications.count >= batch.messages || next.bytes >= batch.bytes else { continue }
                let full = next
                next = OutgoingBatch()
                try await deliver(full)
            }
        } catch let error as HistoryError {
            if !next.publications.isEmpty { try await deliver(next) }
            throw error
        }
        if !next.publications.isEmpty { try await deliver(next) }
    }

    /// The nonces before these. The store is asked only for those that no neighbour tells.
    private func previousNonces(of tokens: [HistoryToken], after start: HistoryToken) async throws -> [UInt64?] {
        let known = [start.sequence: start.nonce].merging(tokens.map { ($0.sequence, $0.nonce) }) { first, _ in first }
        let unknown = tokens.map(\.sequence).filter { known[$0 - 1] == nil }
        guard !unknown.isEmpty else { return tokens.map { known[$0.sequence - 1] } }
        var asked: [Int64: UInt64?] = [:]
        for (sequence, nonce) in zip(unknown, try await store.previousNonces(of: unknown)) { asked[sequence] = nonce }
        return tokens.map { known[$0.sequence - 1] ?? asked[$0.sequence] ?? nil }
    }

    private mutating func append(
        _ transaction: HistoryTransaction, _ previousNonce: UInt64?, to batch: inout OutgoingBatch
    ) async throws {
        let (message, isThin) = try await encoder.encode(transaction, previousNonce: previousNonce)
        if isThin { thin += 1 }
        let key = names.historyKey(author: transaction.author)
        batch.publications.append(
            AMQPPublication(message, to: AMQPAddress(exchange: names.history, routingKey: key)))
        batch.sequences.append(transaction.token.sequence)
        batch.origins.append(transaction.origin.description)
        batch.last = transaction.token
        batch.bytes += message.body.count
    }
}
