internal import PersistentHistory
internal import TidingsAMQP

extension HistoryRelay {
    private static let batchesAtATime = 3
    /// How many transactions are looked at, and taken over, at a time.
    private static let scanSize = 4096
    private static let claimSize = 1000
    private static let recordInterval = Duration.milliseconds(250)

    /// What one look at the store has found.
    private struct Sight: Sendable {
        let records: [PublisherRecord]
        let transactions: [OriginOfTransaction]
    }

    /// Relays until it is stopped.
    func work(_ sender: MessageSender) async throws {
        (batchesOnTheWay, drain, recordDue) = (0, Drain(), nil)
        guard try await retry.run({ try await begin() }) != nil else { return }
        var outbox = try Outbox(
            store, broker, window: options.window, messageLimit: options.messageLimit, isDurable: false)
        let commits = try await store.commits()
        let (life, gate) = (life, commitGate)
        try await withThrowingDiscardingTaskGroup { group in
            group.addTask { await life.follow(commits, gate) }
            do {
                try await relayAll(&outbox) { batch in
                    batchesOnTheWay += 1
                    let lineage = lineage
                    let turn = sender.nextTurn()
                    group.addTask { await self.deliver(batch, turn, sender, lineage) }
                }
            } catch is Drain.Over {
                log.write(.warning, "stopped before all was confirmed")
            }
            group.cancelAll()
        }
        await recordTheEnd()
    }

    /// Records what is confirmed at the end. Where that is not possible, the next relay publishes it once more.
    private func recordTheEnd() async {
        guard ledger.publishedThrough.sequence > recordedThrough else { return }
        do {
            try await record()
        } catch {
            log.write(.warning, "what was confirmed last cannot be recorded", error)
        }
    }

    /// Switches publishing on, and finds up to where everything is published.
    private func begin() async throws {
        lineage += 1
        let published = try await store.coordinate { database, state in
            try StoreState.switchPublishingOn(database)
            // Beyond the head where the lineage was lost; then nothing is known to be published.
            return try state.token(at: state.publishedSequence ?? 0, database) ?? state.mark
        }
        restart(after: published)
        recordedThrough = published.sequence
    }

    private func restart(after token: HistoryToken) {
        ledger = RelayLedger(after: token, grace: options.grace)
        (version, records, hasMore) = (nil, [], true)
    }

    // MARK: The loop

    private func relayAll(_ outbox: inout Outbox, _ send: (OutgoingBatch) -> Void) async throws {
        while true {
            try Task.checkCancellation()
            do {
                try await look()
                if !life.isStopping { try await takeOver(&outbox, send) }
                try await recordIfDue()
            } catch let error as HistoryError {
                try await goOn(after: error)
            }
            if life.isStopping, batchesOnTheWay == 0 { return }
            try checkDrain()
            if hasMore, ledger.room > 0 { continue }
            await pause()
        }
    }

    /// Looks for what is new, where somebody has committed.
    private func look() async throws {
        let current = try await store.dataVersion()
        guard current != version || (hasMore && ledger.room > 0) else { return }
        let (end, limit) = (ledger.end, max(0, min(Self.scanSize, ledger.room)))
        let sight = try await store.observe { database, state in
            Sight(
                records: try PublisherRecord.all(database),
                transactions: try OriginOfTransaction.after(end, limit: limit, database, state))
        }
        // Nothing of the history has changed: it may be what an untracked writer did, which the next write transaction
        // finds and records.
        if sight.transactions.isEmpty, sight.records == records, version != nil, current != version {
            try await store.coordinate { _, _ in }
        }
        let now = ContinuousClock.now
        ledger.update(sight.records, at: now)
        ledger.append(sight.transactions, at: now)
        hasMore = sight.transactions.count == limit
        (version, records) = (current, sight.records)
    }

    /// Publishes what nobody else does.
    private func takeOver(_ outbox: inout Outbox, _ send: (OutgoingBatch) -> Void) async throws {
        while !life.isStopping, case (var before, let claimed)? = ledger.claim(Self.claimSize, at: .now) {
            var left = Set(claimed.map(\.token.sequence))
            let lineage = lineage
            defer { if lineage == self.lineage { ledger.release(Array(left), at: .now) } }
            options.onStep?(.relayBeforeFlush)
            guard try await retry.run(survives: { _ in true }, { try await outbox.flush() }) != nil else { return }
            options.onStep?(.relayAfterFlush)
            var request = HistoryRequest(after: before)
            request.through = claimed.last?.token.sequence
            request.pageSize = Self.claimSize
            var isAtEnd = false
            while !isAtEnd {
                let page = try await store.fetch(request)
                let start = before
                before = page.token
                request.start = .token(page.token)
                isAtEnd = page.isAtEnd
                let transactions = page.transactions.filter { left.contains($0.token.sequence) }
                try await outbox.send(transactions, after: start) { batch in
                    try await waitForRoom()
                    left.subtract(batch.sequences)
                    send(batch)
                }
                thin += outbox.thin
                outbox.forgetCounts()
            }
        }
    }

    private func waitForRoom() async throws {
        guard batchesOnTheWay >= Self.batchesAtATime else { return }
        commitGate.close()
        defer { commitGate.open() }
        while batchesOnTheWay >= Self.batchesAtATime {
            try checkDrain()
            try await recordIfDue()
            await pause()
            try Task.checkCancellation()
        }
    }

    /// Publishes a batch until all of it is settled, or everything ends.
    private func deliver(
        _ batch: OutgoingBatch, _ turn: MessageSender.Turn, _ sender: MessageSender, _ lineage: Int
    ) async {
        let onStep = options.onStep
        var didWrite: (@Sendable () -> Void)?
        if let onStep { didWrite = { onStep(.relayAfterPublish) } }
        options.onSend?(batch.sequences)
        try? await sender.deliver(batch.publications, turn: turn, didWrite: didWrite) { positions in
            onStep?(.relayAfterConfirm)
            await self.settle(positions.map { batch.sequences[$0] }, lineage)
        }
        batchesOnTheWay -= 1
        life.wakeup.signal()
    }

    private func settle(_ sequences: [Int64], _ lineage: Int) {
        guard lineage == self.lineage else { return }
        ledger.settle(sequences)
        life.wakeup.signal()
    }

    // MARK: Waiting

    private func pause() async {
        // A time to record that has passed, with nothing to record, is no reason to look again at once.
        let due = ledger.publishedThrough.sequence > recordedThrough ? recordDue : nil
        let deadlines = [.now + options.pollInterval, due, drain.deadline].compactMap { $0 }
        await life.wakeup.wait(until: deadlines.min() ?? .now)
    }

    private func checkDrain() throws {
        try drain.check(life, within: options.drainTimeout, connection)
    }

    // MARK: What the store has become

    private func goOn(after error: HistoryError) async throws {
        switch error.code {
        case .tokenExpired:
            guard let mark = try await retry.run({ try await store.oldestToken() }) else { return }
            guard mark.sequence > ledger.publishedThrough.sequence else { throw error }
            purged += Int(mark.sequence - ledger.publishedThrough.sequence)
            lineage += 1
            restart(after: mark)
            log.write(.warning, "history was purged before it was published", nil, [("through", "\(mark.sequence)")])
        case .tokenInvalid:
            log.write(.warning, "the store's lineage is another one: relaying begins anew", error)
            _ = try await retry.run { try await begin() }
        default:
            guard error.passes else { throw error }
            log.write(.warning, "the store cannot be used now", error)
            recordDue = .now + .seconds(1)
            try await life.pause(for: options.pollInterval)
        }
    }

    // MARK: Writing it down

    private func recordIfDue() async throws {
        guard ledger.publishedThrough.sequence > recordedThrough else { return }
        guard let due = recordDue, due > .now else { return try await record() }
    }

    /// Records up to where everything is published, and forgets publishers that are long gone.
    private func record() async throws {
        let token = ledger.publishedThrough
        let silent = ledger.silent(for: options.forgetAfter, at: .now)
        try await store.coordinate { database, state in
            // Answers to messages of a lineage that was lost say nothing about this one.
            try state.checkLineage(of: token, database)
            try StoreState.publish(through: token.sequence, database)
            for record in silent { try record.remove(database) }
            try PublisherRecord.removeEnded(try StoreState.current(database), database)
        }
        recordedThrough = token.sequence
        recordDue = .now + Self.recordInterval
        options.onStep?(.relayAfterPublishedThrough)
    }
}
