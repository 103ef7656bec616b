internal import PersistentHistory
internal import TidingsAMQP

/// Notices that there may be something to fetch: by deliveries, by the store's data version. What a delivery says is a
/// hint, no more: nothing of it is merged.
final class HistoryObserver: Sendable {
    /// A delivery that waits until what it announced is merged.
    struct Arrival: Sendable {
        let receipt: AMQPDelivery
        let token: HistoryToken
        /// True where it had come before the store was looked at last.
        var wasThere = false
    }

    private let store: HistoryStore
    private let name: String
    private let link: BrokerLink?
    private let options: HistoryConsumer.Options
    private let board: ConsumerBoard
    private let deadLetters: DeadLetters?
    /// Bounded by the prefetch limit, and without bodies.
    private let arrivals = Locked<[Arrival]>([])
    private let isConsuming = Locked(false)
    /// Who counts deliveries that are too large, and how many are told already.
    private let oversized = Locked<(consumer: AMQPConsumer?, seen: Int)>((nil, 0))
    private let polling = Wakeup()

    init(
        _ store: HistoryStore, name: String, link: BrokerLink?, options: HistoryConsumer.Options, board: ConsumerBoard
    ) {
        self.store = store
        self.name = name
        self.link = link
        self.options = options
        self.board = board
        deadLetters = link.map { DeadLetters($0, options, board) }
    }

    /// Observes until it is cancelled, or the connection is closed.
    func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.poll() }
            if let link {
                group.addTask { await self.watch(link) }
                group.addTask { await self.consume(link) }
                if let deadLetters { group.addTask { await deadLetters.run() } }
            }
        }
    }

    /// The deliveries that came since the last time.
    func takeArrivals() -> [Arrival] {
        arrivals.withLock { arrivals in
            defer { arrivals = [] }
            return arrivals
        }
    }

    /// Gives back those that are not merged yet.
    func putBack(_ unsettled: [Arrival]) {
        if !unsettled.isEmpty { arrivals.withLock { $0.insert(contentsOf: unsettled, at: 0) } }
    }

    // MARK: Deliveries

    private func consume(_ link: BrokerLink) async {
        let queue = link.names.queue(of: name)
        // The queue ends for good where it cannot be declared again, say: it is begun anew, and polled meanwhile.
        while !Task.isCancelled {
            let goesOn = await link.insist("consuming \(queue)", options) {
                try await link.consuming.waitUntilOpen(within: .seconds(3600))
                try await link.consuming.declare(link.names.consuming(as: name))
                var consuming = AMQPConsumeOptions(prefetch: options.prefetch)
                consuming.maximumMessageSize = options.largestMessage
                let consumer = try await link.consuming.consume(queue, consuming)
                forgetArrivals()
                oversized.withLock { $0 = (consumer, 0) }
                set(isConsuming: true)
                defer {
                    countOversized()
                    set(isConsuming: false)
                }
                var restarts = 0
                for try await delivery in consumer {
                    // Those of a channel that is gone can be settled no more, and come again.
                    let counts = consumer.counts
                    if counts.restarts != restarts { forgetArrivals() }
                    restarts = counts.restarts
                    take(delivery, link)
                    countOversized()
                }
            }
            guard goesOn, link.consuming.isUsable else { return }
        }
    }

    private func forgetArrivals() { arrivals.withLock { $0 = [] } }

    private func take(_ delivery: AMQPDelivery, _ link: BrokerLink) {
        board.count { $0.deliveries += 1 }
        do {
            let token = try token(of: delivery, link)
            arrivals.withLock { $0.append(Arrival(receipt: delivery.receipt, token: token)) }
            board.announceNews()
        } catch {
            deadLetters?.take(delivery, error)
        }
    }

    /// The transaction that a delivery tells of.
    private func token(of delivery: AMQPDelivery, _ link: BrokerLink) throws(DeliveryRefusal) -> HistoryToken {
        guard delivery.address.exchange == link.names.history else {
            throw DeliveryRefusal(.foreignExchange, "it came by the exchange '\(delivery.address.exchange)'")
        }
        let token: HistoryToken
        do throws(MessagingError) {
            token = try HistoryMessageHeader(decoding: delivery.message.body).token
        } catch {
            throw DeliveryRefusal(error)
        }
        guard token.storeID == store.storeID else {
            throw DeliveryRefusal(.foreignStore, "it is of store \(token.storeID)")
        }
        return token
    }

    /// Counts what the connection has rejected unread, since nobody is given that.
    private func countOversized() {
        let new = oversized.withLock { oversized in
            guard let count = oversized.consumer?.counts.oversized else { return 0 }
            defer { oversized.seen = count }
            return count - oversized.seen
        }
        guard new > 0 else { return }
        board.count { $0.oversized += new }
        options.log(
            .warning, "deliveries were rejected unread: they are larger than \(options.largestMessage) bytes",
            [("count", "\(new)")])
    }

    // MARK: The store

    private func poll() async {
        var last: Int64?
        while !Task.isCancelled {
            countOversized()
            do {
                let version = try await store.dataVersion()
                // The first one too: what was committed before it was read would else go unnoticed.
                if version != last { board.announceNews() }
                last = version
            } catch {
                // Whoever fetches will say what is wrong.
                board.announceNews()
            }
            await polling.wait(until: .now + interval)
        }
    }

    private var interval: Duration {
        isConsuming.withLock { $0 } && link?.consuming.state == .open
            ? options.pollInterval : options.pollIntervalWithoutBroker
    }

    private func set(isConsuming value: Bool) {
        isConsuming.withLock { $0 = value }
        polling.signal()
    }

    /// Tells the state of the connection, and polls at once where it has changed.
    private func watch(_ link: BrokerLink) async {
        var wasOpen: Bool?
        for await state in link.consuming.states() {
            board.set(broker: state)
            options.log(ServiceLog.level(of: state), "broker: \(state)", [("consumer", name)])
            let isOpen = state == .open
            if isOpen != wasOpen { polling.signal() }
            wasOpen = isOpen
        }
    }
}

extension AMQPConnection {
    /// False at its end.
    nonisolated var isUsable: Bool {
        if case .closed = state { false } else { true }
    }
}
