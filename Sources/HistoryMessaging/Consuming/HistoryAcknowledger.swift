internal import PersistentHistory
internal import TidingsAMQP

/// Makes the token durable, then acks deliveries, then tells the cleaner: in this order, so that nobody is told of what a
/// crash could undo.
actor HistoryAcknowledger {
    private let store: HistoryStore
    private let name: String
    private let author: String
    private let link: BrokerLink?
    private let options: HistoryConsumer.Options
    private let board: ConsumerBoard
    private let file: TokenFile
    /// True where the file is damaged until something is written.
    private var mustRenew: Bool
    /// True where a write has failed: the file may hold what was to be written all the same.
    private var isUncertain = false
    private var stored = StoredToken()
    /// The newest token that may be acknowledged; older ones matter to nobody.
    private var newest: HistoryToken?
    private var isRepeating = false
    /// A token that the history does not hold any more, until a new epoch has begun, and when to tell of it again.
    private var lost: (token: HistoryToken, due: ContinuousClock.Instant)?
    /// The newest that was taken.
    private var taken: HistoryToken?
    private let wakeup = Wakeup()
    /// How long a consumer waits for the new epoch.
    private static let longestProof: Duration = .seconds(1)

    init(
        _ store: HistoryStore, name: String, author: String, link: BrokerLink?, options: HistoryConsumer.Options,
        board: ConsumerBoard, file: TokenFile, isDamaged: Bool
    ) {
        self.store = store
        self.name = name
        self.author = author
        self.link = link
        self.options = options
        self.board = board
        self.file = file
        mustRenew = isDamaged
    }

    /// The token that the file holds.
    var token: HistoryToken? { stored.token }

    /// Makes a token durable; free where nothing has changed.
    func remember(_ content: StoredToken) async throws {
        guard mustRenew || isUncertain || content != stored else { return }
        try options.onTokenWrite?()
        isUncertain = true
        if mustRenew { try await file.renew(content) } else { try await file.write(content) }
        (mustRenew, isUncertain) = (false, false)
        stored = content
    }

    /// Acks deliveries whose transactions are merged.
    ///
    /// - Parameters:
    ///   - token: up to where everything is merged, durably.
    ///   - head: how far the store went when it was looked at last; nil where that is not known.
    /// - Returns: those that are still to be merged.
    func settle(
        _ arrivals: [HistoryObserver.Arrival], through token: HistoryToken, head: HistoryToken?
    ) -> [HistoryObserver.Arrival] {
        arrivals.filter { arrival in
            switch ArrivalFate(of: arrival.token, through: token, head: arrival.wasThere ? head : nil) {
            case .stays: return true
            case .merged: break
            case .beyondHead:
                board.count { $0.beyondHead += 1 }
                options.log(
                    .warning,
                    "a message tells of a transaction that the store does not hold: a lost lineage, or forged",
                    [("token", arrival.token.description), ("head", head?.description ?? "")])
            }
            arrival.receipt.ack()
            return false
        }
    }

    /// Acknowledges a token, soon.
    func acknowledge(_ token: HistoryToken) {
        guard token != newest else { return }
        newest = token
        wakeup.signal()
    }

    /// Acknowledges again: who was told may be gone.
    func repeatAcknowledgement() {
        isRepeating = true
        lost?.due = .now
        wakeup.signal()
    }

    /// Tells of a token that was merged and that the history does not hold any more: whoever keeps the lineage begins a new
    /// epoch, so that what is written now cannot be taken for what was lost. Waits for that, a while: what is loaded before
    /// would have to be loaded again.
    ///
    /// Throws what the store throws where this consumer itself begins the epoch: where there is no broker.
    func prove(_ lost: HistoryToken) async throws {
        guard link != nil else {
            if store.isWritable { try await store.beginEpoch(afterLosing: lost) }
            return
        }
        self.lost = (lost, .now)
        wakeup.signal()
        let deadline = ContinuousClock.now + Self.longestProof
        while mayBeTaken, (try? await store.hasLost(lost)) == true, ContinuousClock.now < deadline, !Task.isCancelled {
            try? await Task.sleep(for: .milliseconds(5))
        }
    }

    /// Waits until the newest token is acknowledged, a while; not where the broker is away, or takes nothing.
    func flush(within limit: Duration) async {
        let deadline = ContinuousClock.now + limit
        while newest != taken, mayBeTaken, ContinuousClock.now < deadline, !Task.isCancelled {
            try? await Task.sleep(for: .milliseconds(5))
        }
    }

    /// True where a broker is connected, or about to be for the first time; and where there is none.
    private var mayBeTaken: Bool {
        switch link?.publishing.state {
        case nil, .idle, .connecting, .open: true
        case .blocked, .recovering, .closed: false
        }
    }

    /// Tells the cleaner, until it is cancelled.
    func run() async {
        guard let link else { return await run(sending: { try await self.acknowledgeDirectly($0) }) }
        guard await link.declareExchanges(options) else { return }
        let publisher = await link.publishing.publisher(window: .init(messages: 10))
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.repeatWhenReconnected(link) }
            await run(sending: { try await self.publish($0, publisher, link) })
            group.cancelAll()
        }
    }

    /// Sends what is to be acknowledged, until it is cancelled.
    ///
    /// - Parameter send: true where it was taken.
    func run(sending send: (HistoryToken) async throws -> Bool) async {
        var attempt = 0
        var due = ContinuousClock.now + options.acknowledgeInterval
        while !Task.isCancelled {
            do {
                if let lost, lost.due <= .now {
                    self.lost?.due = .now + options.acknowledgeInterval
                    if try await store.hasLost(lost.token) {
                        // An acknowledgement like any other: it is the cleaner who knows that it cannot be. One that does not
                        // count yet, since the consumer is not registered, comes again.
                        _ = try await send(lost.token)
                    } else if self.lost?.token == lost.token {
                        self.lost = nil
                    }
                } else if let token = newest, token != taken || isRepeating || ContinuousClock.now >= due {
                    due = .now + options.acknowledgeInterval
                    // Before it is sent: whoever asks for a repeat meanwhile asks for one more.
                    isRepeating = false
                    let isTaken: Bool
                    do {
                        isTaken = try await send(token)
                    } catch {
                        isRepeating = true
                        throw error
                    }
                    if isTaken {
                        board.set(acknowledged: token)
                        options.step(.consumerAfterAcknowledgement)
                        attempt = 0
                    } else {
                        due = .now + min(options.acknowledgeInterval, .seconds(30))
                    }
                    // Also where nobody wanted it: not again at once.
                    taken = token
                } else {
                    await wakeup.wait(until: [newest.map { _ in due }, lost?.due].compactMap { $0 }.min())
                }
            } catch {
                guard !Task.isCancelled else { return }
                attempt += 1
                options.log(.debug, "acknowledging failed: \(error)", [("token", newest?.description ?? "")])
                await wakeup.wait(until: .now + options.retry.delay(attempt: attempt, random: .random(in: 0..<1)))
            }
        }
    }

    /// True where it was taken; false where no queue wanted it.
    private func publish(_ token: HistoryToken, _ publisher: AMQPPublisher, _ link: BrokerLink) async throws -> Bool {
        let message = AcknowledgementMessage(consumer: name, author: author, token: token).message(user: link.user)
        let address = AMQPAddress(
            exchange: link.names.acknowledgements, routingKey: link.names.acknowledgementKey(consumer: name))
        switch try await publisher.publish(message, to: address) {
        case .confirmed: return true
        case .returned:
            board.count { $0.unrouted += 1 }
            return false
        case .nacked:
            throw AMQPError(.closedByBroker, "the broker refused an acknowledgement (nack)")
        case .unknown(let error): throw error
        }
    }

    /// Without a broker the store is told directly, where it can be written.
    private func acknowledgeDirectly(_ token: HistoryToken) async throws -> Bool {
        guard store.isWritable, board.isProtected else { return false }
        try await store.acknowledge(token, consumer: name)
        return true
    }

    private func repeatWhenReconnected(_ link: BrokerLink) async {
        var epoch = link.publishing.epoch
        for await state in link.publishing.states() where state == .open {
            if link.publishing.epoch != epoch { repeatAcknowledgement() }
            epoch = link.publishing.epoch
        }
    }
}
