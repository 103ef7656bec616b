internal import Synchronization

/// A publisher's side on the connection's thread: its window, and what waits for room in it.
final class PublisherState {
    let id: Int
    let window: AMQPPublisher.Window
    /// The channel, where it is open.
    var channel: Channel?
    var confirms = ConfirmStateMachine<PublishSlot>()
    /// The batches of which something is still to be written, in order.
    var waiting = Deque<PublishBatch>()
    var counts = PublishCounts()
    /// Since when the channel has answered with nothing but nacks.
    var refusedSince: ContinuousClock.Instant?

    init(id: Int, window: AMQPPublisher.Window) {
        self.id = id
        self.window = window
    }

    /// True where there is nothing to write and nothing to wait for.
    var isIdle: Bool { waiting.isEmpty && confirms.count == 0 }

    /// True where there is a message to write, a channel to write it on, and room for it in the window.
    var canWrite: Bool {
        guard channel != nil, let batch = waiting.first else { return false }
        let size = batch.publications[batch.next].message.body.count
        return confirms.count == 0 || (confirms.count < window.messages && confirms.bytes + size <= window.bytes)
    }

    /// Takes the broker's answer.
    func resolve(_ slot: PublishSlot, _ result: PublishResult) {
        switch result {
        case .confirmed:
            counts.confirmed += 1
            refusedSince = nil
        case .nacked:
            counts.nacked += 1
            if refusedSince == nil { refusedSince = .now }
        case .returned: counts.returned += 1
        case .unknown: counts.unknown += 1
        }
        slot.batch.resolve(slot.index, result)
    }

    /// A message came back: no queue wanted it. Of equal ones the first that has not come back is meant, of alike ones, since
    /// not all headers come back as they went, too; where the body was too large to be taken back, its size stands for it.
    func returned(
        code: UInt16, text: String, _ address: AMQPAddress, _ message: AMQPMessage, skippedSize: UInt64? = nil
    ) {
        let isAlike = { (slot: PublishSlot) in
            let publication = slot.batch.publications[slot.index]
            guard publication.isMandatory, publication.address == address,
                publication.message.properties.messageID == message.properties.messageID
            else { return false }
            if let skippedSize { return UInt64(publication.message.body.count) == skippedSize }
            return publication.message.body == message.body
        }
        let isEqual = { (slot: PublishSlot) in
            let own = slot.batch.publications[slot.index].message.properties
            return isAlike(slot) && own.correlationID == message.properties.correlationID
                && own.headers == message.properties.headers
        }
        if !confirms.returned(code: code, text: text, where: isEqual) {
            _ = confirms.returned(code: code, text: text, where: isAlike)
        }
    }

    /// The channel ended: what is unanswered is unknown.
    func lose(_ error: AMQPError) {
        channel = nil
        refusedSince = nil
        confirms.abandon { resolve($0, .unknown(error)) }
    }

    /// Gives up a batch: its caller was cancelled.
    func cancel(_ identity: PublishBatch.Identity) {
        for index in 0..<waiting.count where waiting[index].identity == identity {
            let batch = waiting[index]
            waiting.removeAll { $0 === batch }
            batch.abandon(nil)
            return
        }
        // Wholly written: the answers may still come, and count; the caller waits no longer.
        confirms.firstUnanswered { $0.batch.identity == identity }?.batch.abandon(nil)
    }

    /// There is no channel for it: what waits fails. The next call tries again.
    func refuse(_ error: AMQPError) {
        for batch in waiting.removeAll() { batch.abandon(error) }
    }

    /// Ends the publisher.
    func close(_ error: AMQPError) {
        lose(error)
        for batch in waiting.removeAll() { batch.abandon(error) }
    }
}

/// One message of a batch.
struct PublishSlot {
    let batch: PublishBatch
    let index: Int
}

/// The messages of one call to publish, and their results.
final class PublishBatch {
    /// Tells one call from another.
    struct Identity: Hashable, Sendable {
        private static let last = Atomic<UInt64>(0)
        private let number: UInt64

        static func next() -> Identity {
            Identity(number: last.add(1, ordering: .relaxed).newValue)
        }
    }

    let identity: Identity
    let publications: [AMQPPublication]
    /// The first message that is not written.
    var next = 0
    private var results: [PublishResult?]
    private var unresolved: Int
    private var continuation: CheckedContinuation<[PublishResult], any Error>?

    init(
        _ publications: [AMQPPublication], identity: Identity,
        continuation: CheckedContinuation<[PublishResult], any Error>
    ) {
        self.publications = publications
        self.identity = identity
        self.continuation = continuation
        results = Array(repeating: nil, count: publications.count)
        unresolved = publications.count
    }

    /// True where its caller waits for it.
    var isAwaited: Bool { continuation != nil }

    func resolve(_ index: Int, _ result: PublishResult) {
        guard results[index] == nil else { return }
        results[index] = result
        unresolved -= 1
        if unresolved == 0 { finish() }
    }

    /// Lets the caller go: with what is known, the rest unknown; or where nothing was written, with an error.
    func abandon(_ error: AMQPError?) {
        guard let continuation else { return }
        if next == 0 {
            self.continuation = nil
            continuation.resume(throwing: error ?? CancellationError())
            return
        }
        let reason = error ?? AMQPError(.closed, "the wait for the broker's answer was cancelled")
        for index in results.indices where results[index] == nil { results[index] = .unknown(reason) }
        finish()
    }

    private func finish() {
        continuation?.resume(returning: results.map { $0 ?? .unknown(AMQPError(.closed, "given up")) })
        continuation = nil
    }
}
