public import PersistentHistory
internal import TidingsAMQP
internal import TidingsSQLite

/// Deletes history once everyone who needs it has it.
///
/// As a service it takes acknowledgements and commands from the broker, and cleans by its strategy. One serves a store at
/// a time; another one waits for it to end. Without a broker, or without running at all, ``clean()`` works from what
/// consumers have acknowledged in the store itself.
///
/// Nothing goes that a required consumer has not acknowledged; one that never has acknowledged blocks every cleaning.
/// Data tables are never touched. Every cleaning is a prefix of the history, marked and audited, whatever interrupts it.
///
/// ```swift
/// var options = HistoryCleaner.Options()
/// options.strategy = .byDuration(.seconds(3600))
/// try await HistoryCleaner(store, broker: broker, options: options).run()
/// ```
public actor HistoryCleaner: HistoryService {
    let store: HistoryStore
    let broker: Broker
    let options: Options
    let log: ServiceLog
    nonisolated let life = ServiceLife("cleaner")
    let retry: StoreRetry
    let names: BrokerNames
    let checks: IncomingChecks
    let messages: CleanerMessages
    var schedule: CleaningSchedule
    /// The counts of ``status()``; the rest of it is filled in when it is asked for.
    var counted = CleanerStatus()
    /// What keeps parts of its work from being done.
    var failures: [Part: String] = [:]
    var link: CleanerLink?
    var replies = ReplyMemory()
    /// Commands under way, with whoever asks for the same meanwhile.
    var asking: [ReplyMemory.Key: [AMQPDelivery]] = [:]
    /// The newest transaction that this cleaner has seen, and the newest that was acknowledged to it.
    var seen: (head: HistoryToken?, acknowledged: HistoryToken?)
    /// Where acknowledgements come by no broker: what consumers had acknowledged when it looked last.
    var seenAcknowledgements: [String: HistoryToken]?
    /// Wakes the task that cleans.
    nonisolated let due = Wakeup()
    /// Refused messages that are to be put among the dead ones, and announcements.
    var outgoing = DeliveryInbox<Outgoing>()

    /// Prepares a cleaner; nothing starts before ``run()``.
    ///
    /// - Parameter broker: where acknowledgements and commands come from; with ``Broker/none`` it works from the store.
    public init(_ store: HistoryStore, broker: Broker = .none, options: Options = Options()) {
        self.store = store
        self.broker = broker
        self.options = options
        log = ServiceLog(service: "cleaner", logger: options.logger)
        retry = StoreRetry(life: life, log: log)
        schedule = CleaningSchedule(options.strategy)
        names = broker.names(for: store)
        checks = IncomingChecks(names: names, commandUsers: options.commandUsers)
        messages = CleanerMessages(names: names, user: broker.user, store: names.store)
    }

    /// `cleaner`, followed by the store's name.
    public nonisolated var serviceName: String { "cleaner \(names.store)" }

    /// Serves the store until it is stopped; first waits until no other cleaner does.
    ///
    /// Throws ``MessagingError`` `alreadyRunning`, and `invalid` for options that mean nothing, a store that was opened for
    /// reading, or where the lock's file cannot be used; ``HistoryError`` where the store cannot be used any more;
    /// ``AMQPError`` where the connection may not recover. A cancellation ends it between two write transactions; what
    /// was not acked comes again.
    public func run() async throws {
        try options.validate()
        guard store.isWritable else {
            throw MessagingError(.invalid, "a cleaner writes: open \(store.path) for writing")
        }
        try life.begin()
        defer { ended() }
        counted.isRunning = true
        if options.isHastyWithMirrors {
            log.write(
                .warning, "cleaning more often than every 7 days may remove what a mirror has not copied yet", nil,
                [("mirrors", options.mirrorAuthors.sorted().joined(separator: ","))])
        }
        let lock = try ServiceLock(store, for: "cleaner")
        guard try await take(lock) else { return }
        defer { lock.release() }
        try await serve()
    }

    /// Finishes what is under way: a cleaning ends after its write transaction, what has come from the broker is dealt
    /// with. Then ``run()`` returns.
    public nonisolated func stop() async { await life.stop() }

    /// What it has done, and is doing.
    public func status() async -> CleanerStatus {
        var status = counted
        status.broker = link?.reading.state
        status.failure = Part.allCases.lazy.compactMap { self.failures[$0] }.first
        return status
    }

    // MARK: Running

    private func ended() {
        counted.isRunning = false
        counted.waitingFor = nil
        failures = [:]
        link = nil
        life.end()
    }

    /// Waits until no other cleaner serves the store. False where it is stopped before.
    private func take(_ lock: ServiceLock) async throws -> Bool {
        while !life.isStopping {
            try Task.checkCancellation()
            if try lock.take() {
                counted.waitingFor = nil
                return true
            }
            let holder = lock.holder ?? "another process"
            if counted.waitingFor != holder {
                counted.waitingFor = holder
                log.write(.info, "waits: another cleaner serves this store", nil, [("holder", holder)])
            }
            await life.wakeup.wait(until: .now + .milliseconds(250))
        }
        return false
    }

    private func serve() async throws {
        outgoing = DeliveryInbox()
        guard let link = try await CleanerLink(broker, names: names, log: log) else {
            return try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await self.keepClean() }
                group.addTask {
                    try await self.life.waitForStop()
                    self.due.signal()
                }
                try await group.finishOrFail()
            }
        }
        self.link = link
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await link.run() }
            group.addTask {
                try await self.work(link)
                await link.close(within: self.options.drainTimeout)
            }
            try await group.finishOrFail()
        }
    }

    /// Everything that is done over a link, until it is stopped and what has come is dealt with.
    private func work(_ link: CleanerLink) async throws {
        let acknowledgements = DeliveryInbox<AMQPDelivery>()
        let commands = DeliveryInbox<AMQPDelivery>()
        let drainTimeout = options.drainTimeout
        try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                try await self.deal(with: acknowledgements, commands, over: link)
                return true
            }
            group.addTask {
                await self.receive(acknowledgements, commands, over: link)
                // A broker that takes nothing any more must not hold up the end.
                try? await Task.sleep(for: drainTimeout)
                if !Task.isCancelled { await link.close(within: .zero) }
                return false
            }
            while let isDone = try await group.next(), !isDone {}
            group.cancelAll()
        }
    }

    private func deal(
        with acknowledgements: DeliveryInbox<AMQPDelivery>, _ commands: DeliveryInbox<AMQPDelivery>,
        over link: CleanerLink
    ) async throws {
        let outgoing = outgoing
        let flusher = store.synchronous == .full ? nil : try LogFlusher(store)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await self.send(outgoing, over: link) }
            try await withThrowingTaskGroup(of: Void.self) { workers in
                workers.addTask { try await self.takeAcknowledgements(acknowledgements, flusher) }
                workers.addTask { await self.takeCommands(commands, flusher, over: link) }
                workers.addTask { try await self.keepClean() }
                try await workers.finishOrFail()
            }
            // They alone put something in.
            outgoing.finish()
            try await group.finishOrFail()
        }
    }

    /// Receives until it is stopped; then nothing comes into the inboxes any more.
    private nonisolated func receive(
        _ acknowledgements: DeliveryInbox<AMQPDelivery>, _ commands: DeliveryInbox<AMQPDelivery>,
        over link: CleanerLink
    ) async {
        let queues = [
            (name: names.acknowledgementQueue, prefetch: UInt16(500), inbox: acknowledgements),
            (name: names.controlQueue(of: "cleaner"), prefetch: UInt16(16), inbox: commands),
        ]
        await withTaskGroup(of: Void.self) { group in
            for queue in queues {
                group.addTask {
                    await link.receive(queue.name, prefetch: queue.prefetch, tick: self.options.tick) { delivery in
                        queue.inbox.add(delivery)
                    } countOversized: { count in
                        await self.countOversized(count, in: queue.name)
                    }
                }
            }
            try? await self.life.waitForStop()
            group.cancelAll()
        }
        acknowledgements.finish()
        commands.finish()
        due.signal()
    }
}
