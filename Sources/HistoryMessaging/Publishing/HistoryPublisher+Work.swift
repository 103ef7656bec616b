internal import PersistentHistory
internal import TidingsAMQP
internal import TidingsSQLite

extension HistoryPublisher {
    /// How many batches are handed to the connection before the oldest has been answered.
    private static let batchesAtATime = 3
    /// How many transactions are read at a time.
    private static let pageSize = 1000
    /// From how many origins on those are forgotten that write no more.
    private static let manyOrigins = 64

    /// Publishes until it is stopped.
    func work(_ sender: MessageSender) async throws {
        (batchesOnTheWay, drain) = (0, Drain())
        guard try await retry.run({ try await begin() }) != nil else { return }
        var outbox = try Outbox(
            store, broker, window: options.window, messageLimit: options.messageLimit,
            isDurable: store.synchronous == .full)
        let commits = try await store.commits()
        let (life, gate) = (life, commitGate)
        try await withThrowingDiscardingTaskGroup { group in
            group.addTask { await life.follow(commits, gate) }
            do {
                try await publishAll(&outbox) { batch in
                    batchesOnTheWay += 1
                    let lineage = lineage
                    let turn = sender.nextTurn()
                    group.addTask { await self.deliver(batch, turn, sender, lineage) }
                }
            } catch is Drain.Over {
                log.write(.warning, "stopped before all was confirmed: the relay publishes the rest")
            }
            group.cancelAll()
        }
        await recordTheEnd()
    }

    /// Says what is confirmed at the end. Where that is not possible, the relay finds out by itself that nobody is left.
    private func recordTheEnd() async {
        do {
            try await record(isLast: true)
        } catch {
            log.write(.warning, "what was confirmed last cannot be recorded", error)
        }
    }

    // MARK: Beginning

    /// Switches publishing on, says that this publisher is alive, and finds where to begin.
    private func begin() async throws {
        lineage += 1
        origins = nil
        rows.reset()
        let origin = store.origin.description
        known = Set(try await store.writtenOrigins().all.map(\.description)).union([origin])
        let (known, openedAt) = (known, store.openedAt)
        let records = rows.next([:], [origin])
        let (start, confirmed, purged) = try await store.coordinate { database, state in
            try StoreState.switchPublishingOn(database)
            try PublisherRecord.removeEnded(state, database)
            for record in records { try record.save(database) }
            var confirmed: [String: Int64] = [:]
            for origin in known { confirmed[origin] = try PublisherRecord.of(origin, database)?.confirmed ?? 0 }
            // Nothing of these origins is before the opening, or before what all of them have confirmed.
            let least = confirmed.values.min() ?? 0
            if least > openedAt.sequence, let token = try state.token(at: least, database) {
                return (token, confirmed, 0)
            }
            do {
                try state.check(openedAt, database)
                return (openedAt, confirmed, 0)
            } catch let error as HistoryError where error.code == .tokenExpired {
                return (state.mark, confirmed, Int(state.purgedSequence - openedAt.sequence))
            } catch let error as HistoryError where error.code == .tokenInvalid {
                return (state.mark, confirmed, 0)
            }
        }
        rows.didWrite(records)
        self.purged += purged
        restart(at: start, confirmed)
    }

    private func restart(at token: HistoryToken, _ confirmed: [String: Int64]) {
        cursor = token
        sent = token
        ledger = PublishLedger(after: token.sequence, confirmed: confirmed)
    }

    // MARK: The loop

    private func publishAll(_ outbox: inout Outbox, _ send: (OutgoingBatch) -> Void) async throws {
        while true {
            try Task.checkCancellation()
            // Before it looks: what was committed before the stop is published.
            let isStopping = life.isStopping
            do {
                let isMore = try await publishPage(&outbox, send)
                if !isMore, isStopping, ledger.pending == 0 { return }
                try checkDrain()
                if isMore { try await recordIfDue() } else { try await pause() }
            } catch let error as HistoryError {
                try await goOn(after: error)
                if isStopping, ledger.pending == 0 { return }
                try checkDrain()
            }
        }
    }

    /// Hands on the next page of the own origins' transactions. False where there is none.
    private func publishPage(_ outbox: inout Outbox, _ send: (OutgoingBatch) -> Void) async throws -> Bool {
        let asked: (all: [HistoryOrigin], generation: Int)
        if let origins { asked = origins } else { asked = try await store.writtenOrigins() }
        var request = HistoryRequest(after: cursor)
        request.origins = Set(asked.all).union([store.origin])
        request.pageSize = Self.pageSize
        let page = try await store.fetch(request)
        // An origin that came meanwhile may have written what this page has passed over.
        let now = try await store.writtenOrigins()
        origins = now
        guard now.generation == asked.generation else { return true }
        known = Set(asked.all.map(\.description)).union([store.origin.description])
        let transactions = page.transactions.filter {
            $0.token.sequence > sent.sequence && !ledger.isConfirmed($0.token.sequence, $0.origin.description)
        }
        if !transactions.isEmpty {
            options.onStep?(.publisherBeforeFlush)
            guard try await retry.run(survives: { _ in true }, { try await outbox.flush() }) != nil else {
                return false
            }
            options.onStep?(.publisherAfterFlush)
            defer {
                thin += outbox.thin
                outbox.forgetCounts()
            }
            try await outbox.send(transactions, after: cursor) { batch in
                try await waitForRoom()
                for (sequence, origin) in zip(batch.sequences, batch.origins) { ledger.add(sequence, origin) }
                sent = batch.last ?? sent
                send(batch)
            }
        }
        cursor = page.token
        if sent.sequence < cursor.sequence { sent = cursor }
        ledger.read(through: cursor.sequence)
        releaseWaiters()
        // What is committed meanwhile is told.
        return !page.isAtEnd
    }

    private func waitForRoom() async throws {
        guard batchesOnTheWay >= Self.batchesAtATime else { return }
        commitGate.close()
        defer { commitGate.open() }
        while batchesOnTheWay >= Self.batchesAtATime {
            try checkDrain()
            try await pause()
        }
    }

    /// Publishes a batch until all of it is settled, or everything ends.
    private func deliver(
        _ batch: OutgoingBatch, _ turn: MessageSender.Turn, _ sender: MessageSender, _ lineage: Int
    ) async {
        let onStep = options.onStep
        var didWrite: (@Sendable () -> Void)?
        if let onStep { didWrite = { onStep(.publisherAfterPublish) } }
        options.onSend?(batch.sequences)
        // What it throws is the end of the connection, which `run()` tells, or a cancellation.
        try? await sender.deliver(batch.publications, turn: turn, didWrite: didWrite) { positions in
            onStep?(.publisherAfterConfirm)
            await self.settle(positions.map { batch.sequences[$0] }, lineage)
        }
        batchesOnTheWay -= 1
        life.wakeup.signal()
    }

    private func settle(_ sequences: [Int64], _ lineage: Int) {
        guard lineage == self.lineage else { return }
        for sequence in sequences { ledger.settle(sequence) }
        ledger.advance()
        releaseWaiters()
        life.wakeup.signal()
    }

    // MARK: Waiting

    /// Waits for a commit, an answer, or the time to write something down.
    private func pause() async throws {
        try await recordIfDue()
        let due = rows.due(ledger.confirmedThrough(), isBusy: ledger.pending > 0)
        let deadline = [due, drain.deadline].compactMap { $0 }.min()
        await life.wakeup.wait(until: deadline)
        try Task.checkCancellation()
    }

    /// Throws where it is to stop, and waiting for the broker is of no use or has taken its time.
    private func checkDrain() throws {
        try drain.check(life, within: options.drainTimeout, connection)
    }

    // MARK: What the store has become

    /// Goes on after what a purge, a restore or a lock has done; throws what it cannot go on from.
    private func goOn(after error: HistoryError) async throws {
        switch error.code {
        case .tokenExpired:
            guard let mark = try await retry.run({ try await store.oldestToken() }) else { return }
            guard mark.sequence > cursor.sequence else { throw error }
            purged += Int(max(0, mark.sequence - max(cursor.sequence, sent.sequence)))
            cursor = mark
            if sent.sequence < mark.sequence { sent = mark }
            ledger.read(through: mark.sequence)
            log.write(.warning, "history was purged before it was published", nil, [("through", "\(mark.sequence)")])
        case .tokenInvalid:
            log.write(.warning, "the store's lineage is another one: publishing begins anew", error)
            _ = try await retry.run { try await begin() }
        default:
            guard error.passes else { throw error }
            log.write(.warning, "the store cannot be read now", error)
            rows.hold()
            try await life.pause(for: .milliseconds(200))
        }
        life.wakeup.signal()
    }

    // MARK: Writing it down

    /// Throws `tokenInvalid` where the lineage is another one: nobody may go on with what was read of the other, such as the
    /// page that is being handed on.
    private func recordIfDue() async throws {
        guard let due = rows.due(ledger.confirmedThrough(), isBusy: ledger.pending > 0), due <= .now else { return }
        do {
            try await record(isLast: false)
        } catch let error as HistoryError where error.passes {
            rows.hold()
            log.write(.warning, "what is confirmed cannot be recorded now", error)
        }
    }

    /// Records what is confirmed, by origin, and that this publisher is alive, or that it has ended.
    private func record(isLast: Bool) async throws {
        let confirmed = ledger.confirmedThrough()
        var records = rows.next(confirmed, known)
        if isLast {
            records = records.map { PublisherRecord(origin: $0.origin, confirmed: $0.confirmed, heartbeat: 0) }
        }
        let (written, sent) = (records, sent)
        try await store.coordinate { database, state in
            // Answers to messages of a lineage that was lost say nothing about this one.
            try state.checkLineage(of: sent, database)
            for record in written { try record.save(database) }
            if isLast { try PublisherRecord.removeEnded(state, database) }
        }
        rows.didWrite(records)
        options.onStep?(.publisherAfterConfirmedThrough)
        if known.count > Self.manyOrigins { try await forgetQuietOrigins() }
    }

    /// Forgets origins that have nothing left to be published: contexts may be many, and short-lived.
    private func forgetQuietOrigins() async throws {
        let sent = sent
        try await store.forgetOrigins(through: min(ledger.settledThrough, cursor.sequence), in: sent)
        let left = Set(try await store.writtenOrigins().all.map(\.description)).union([store.origin.description])
        let gone = known.subtracting(left)
        let confirmed = ledger.confirmedThrough()
        try await store.coordinate { database, state in
            try state.checkLineage(of: sent, database)
            for origin in gone {
                try PublisherRecord(origin: origin, confirmed: confirmed[origin] ?? 0, heartbeat: 0).save(database)
            }
        }
        known = left
        ledger.keepOnly(left)
        rows.keepOnly(left)
    }
}
