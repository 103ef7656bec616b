internal import PersistentHistory
internal import TidingsAMQP
internal import TidingsSQLite

/// Sees to it that the store knows the consumer, so that nothing is purged that it needs: asks the cleaner, or where
/// there is no broker, writes it down.
final class ConsumerRegistrar: Sendable {
    private let store: HistoryStore
    private let name: String
    private let author: String
    private let link: BrokerLink?
    private let options: HistoryConsumer.Options
    private let board: ConsumerBoard
    /// Where it stood when it began: history after that is still needed.
    private let token: HistoryToken?
    /// Called when the cleaner has registered the consumer: what was acknowledged before did not count.
    private let onRegistered: @Sendable () async -> Void
    private let wakeup = Wakeup()

    /// How long the cleaner may take to answer.
    private static let replyLimit: Duration = .seconds(5)
    /// The delays between questions.
    private static let backoff = Backoff(first: .seconds(2), longest: .seconds(30))
    /// How soon it looks again while an acknowledgement may be on its way that promises too much.
    private static let soon: Duration = .milliseconds(250)

    init(
        _ store: HistoryStore, name: String, author: String, link: BrokerLink?, options: HistoryConsumer.Options,
        board: ConsumerBoard, token: HistoryToken?, onRegistered: @escaping @Sendable () async -> Void
    ) {
        self.store = store
        self.name = name
        self.author = author
        self.link = link
        self.options = options
        self.board = board
        self.token = token
        self.onRegistered = onRegistered
    }

    /// Looks whether the store knows the consumer as it is now; without a broker, registers it.
    func check() async throws {
        let record = try await store.consumers().first { $0.name == name }
        let isKnown = record.map(isUpToDate) ?? false
        if link == nil, store.isWritable {
            if !isKnown { return try await register() }
            // A run before may have ended in between.
            if !board.isProtected { try await makeDurable() }
        }
        if board.isProtected != isKnown { board.set(isProtected: isKnown) }
    }

    private func register() async throws {
        board.set(isProtected: false)
        let floor = try await store.register(
            consumer: name, author: author, role: options.role.rawValue, token: position)
        try await makeDurable()
        protected(floor.description)
    }

    /// Sees to it that a registration is not lost with the system's power: history would go that the token's file, which
    /// is durable, still needs.
    private func makeDurable() async throws {
        if store.synchronous != .full { try await LogFlusher(store).flush() }
    }

    /// True where the store would register the consumer in no other way. Acknowledgements of another user than the
    /// record's do not count: one that has first run without a broker has none there.
    private func isUpToDate(_ record: ConsumerRecord) -> Bool {
        record.author == author && record.role == options.role.rawValue && record.state != .lost
            && record.state != .evicted && (link?.user == nil || record.user == link?.user)
            && !isBehind(record)
    }

    /// True where the consumer has gone back: it was rewound, or a context was restored to an older state. History after
    /// its place may be purged until the store knows that.
    private func isBehind(_ record: ConsumerRecord) -> Bool {
        guard let position, position.epoch == record.epoch else { return false }
        return position.sequence < record.hold
    }

    /// True where an acknowledgement may be on its way that lies further ahead than the consumer stands: one that it sent
    /// before it was rewound, or before it crashed. Whenever that is counted, it lets go of what a registration has held.
    private var mayBeOvertaken: Bool {
        guard let position, let farthest = board.farthest, position.epoch == farthest.epoch else { return false }
        return position.sequence < farthest.sequence
    }

    /// After where it needs history.
    private var position: HistoryToken? { board.status.token ?? token }

    /// Asks until the cleaner has answered; again whenever the registration turns out to be gone.
    func run() async {
        // A former run has told of nothing that is further ahead.
        if let head = try? await store.currentToken() { board.mayHaveTold(head) }
        while !Task.isCancelled {
            let hasLooked = (try? await check()) != nil
            if !board.isProtected, let link {
                guard await link.declareExchanges(options) else { return }
                await ask(link)
            }
            let rest = mayBeOvertaken ? Self.soon : hasLooked ? options.acknowledgeInterval : .seconds(1)
            await wakeup.wait(until: .now + rest)
        }
    }

    /// Looks again, soon: after a token was lost, the registration may be too.
    func checkAgain() { wakeup.signal() }

    private func ask(_ link: BrokerLink) async {
        options.log(.info, "asking the cleaner to register the consumer", [("consumer", name)])
        var attempt = 0
        while !Task.isCancelled, !board.isProtected {
            do {
                try await AMQPRequester.withRequester(on: link.publishing, replyExchange: link.names.replies) {
                    requester in
                    var attempt = 0
                    while !board.isProtected, try await !ask(link, requester) {
                        attempt += 1
                        try await Task.sleep(for: Self.backoff.delay(attempt: attempt, random: .random(in: 0..<1)))
                    }
                }
            } catch {
                guard link.publishing.isUsable, !(error is CancellationError) else { return }
                attempt += 1
                try? await Task.sleep(for: Self.backoff.delay(attempt: attempt, random: .random(in: 0..<1)))
            }
        }
    }

    /// True where the cleaner has registered the consumer.
    private func ask(_ link: BrokerLink, _ requester: AMQPRequester) async throws -> Bool {
        var request = ControlRequest("register")
        request.arguments = [
            "consumer": .string(name), "author": .string(author), "role": .string(options.role.rawValue),
        ]
        let asked = position
        if let asked { request.arguments["token"] = .string(asked.description) }
        let address = AMQPAddress(
            exchange: link.names.control,
            routingKey: link.names.controlKey(service: "cleaner", command: "register"))
        let reply: ControlReply
        do {
            let message = try await requester.request(
                request.message(user: link.user), to: address, within: Self.replyLimit)
            guard let readable = read(message) else { return false }
            reply = readable
        } catch let error as AMQPError where error.code == .notFound || error.code == .timedOut {
            // No cleaner yet. It may come any time.
            return false
        }
        guard reply.isOK else {
            options.log(
                .warning, "the cleaner does not register the consumer: \(reply.message)",
                [("consumer", name), ("code", reply.code ?? "")])
            return false
        }
        // Rewound meanwhile: what was promised is not enough.
        if let asked, let position, position.epoch == asked.epoch, position.sequence < asked.sequence { return false }
        protected(reply.fields["floor"]?.text ?? "")
        await onRegistered()
        return true
    }

    /// A reply; nil where it cannot be read, which is counted and logged.
    private func read(_ message: AMQPMessage) -> ControlReply? {
        do throws(MessagingError) {
            return try ControlReply(decoding: message.body)
        } catch {
            board.count { $0.malformedReplies += 1 }
            options.log(
                .warning, "a reply to the registration cannot be read, and it is asked again: \(error.message)",
                [("consumer", name)])
            return nil
        }
    }

    private func protected(_ floor: String) {
        board.set(isProtected: true)
        options.log(.info, "registered", [("consumer", name), ("floor", floor)])
    }
}
