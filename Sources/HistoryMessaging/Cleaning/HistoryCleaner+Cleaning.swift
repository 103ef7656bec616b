internal import PersistentHistory
internal import TidingsAMQP

extension HistoryCleaner {
    /// Cleans now, whatever the strategy; also where it does not run.
    ///
    /// - Returns: what was removed. Where somebody has registered meanwhile, what was not purged yet stays.
    /// - Throws: ``MessagingError`` `cleaningBlocked`, naming who blocks and the remedy, where nothing may be removed;
    ///   ``HistoryError`` `busy`, `closed`, `readOnly`, `diskFull`; `CancellationError` between two write transactions.
    @discardableResult
    public func clean() async throws -> CleaningReport {
        let report = try await purge()
        guard report.count > 0 || report.obstacles.isEmpty else {
            throw MessagingError(.cleaningBlocked, "nothing is cleaned: \(report.reason ?? "")")
        }
        return report
    }

    /// What the next cleaning would remove, were it now. Nothing is removed.
    public func dryRun() async throws -> CleaningReport {
        CleaningReport(try await store.planCleaning(options.rules))
    }

    private func purge() async throws -> CleaningReport {
        let (life, onStep) = (life, options.onStep)
        let outcome = try await store.clean(
            options.rules, chunk: options.chunk, isEnding: { life.isStopping }, onStep: { onStep?(AgentStep($0)) })
        let report = CleaningReport(outcome)
        note(report)
        return report
    }

    private func note(_ report: CleaningReport) {
        let previous = counted.latest
        counted.latest = report
        if report.count > 0 || report.obstacles.isEmpty { counted.cleanings += 1 }
        counted.removed += report.count
        if report.count > 0 {
            log.write(.info, "cleaned", nil, [("transactions", String(report.count))])
        }
        // Once for each change, not once a second.
        guard let reason = report.reason, report.obstacles != previous?.obstacles else { return }
        log.write(.warning, "cleaning is blocked", nil, [("reason", reason)])
    }

    // MARK: Cleaning by itself

    /// Cleans whenever the strategy allows it, until it is stopped.
    func keepClean() async throws {
        var isFirst = true
        while !life.isStopping {
            try Task.checkCancellation()
            let mustClean = isFirst && options.cleanOnStart
            try await surviving(.cleaning) {
                try await checkLineage()
                try await cleanIfDue(now: mustClean)
            }
            isFirst = false
            await due.wait(until: .now + options.tick)
        }
    }

    private func cleanIfDue(now mustClean: Bool) async throws {
        let time = options.clock.microseconds
        if broker.configuration == nil { try await countAcknowledgements() }
        guard mustClean || schedule.isDue(at: time) else { return }
        let known = schedule.acknowledgements
        let report = try await purge()
        // A refused attempt uses up no slot.
        if report.count > 0 || report.obstacles.isEmpty { schedule.cleaned(at: time, known: known) }
    }

    /// Where acknowledgements come by no broker, the store tells which have come.
    private func countAcknowledgements() async throws {
        var tokens: [String: HistoryToken] = [:]
        for consumer in try await store.consumers() { tokens[consumer.name] = consumer.acknowledged }
        defer { seenAcknowledgements = tokens }
        guard let seen = seenAcknowledgements else { return }
        schedule.acknowledged(tokens.count { $0.value != seen[$0.key] })
    }

    /// Whether the history still holds what this cleaner has seen of it. It does not where an older copy of the file was
    /// put in its place: then a new epoch begins, and everybody resyncs.
    private func checkLineage() async throws {
        for token in [seen.head, seen.acknowledged].compactMap(\.self) {
            guard try await store.hasLost(token), let epoch = try await store.beginEpoch(afterLosing: token)
            else { continue }
            announce(epoch: epoch, "the cleaner has seen history that the store does not have any more")
        }
        let head = try await store.currentToken()
        // An older one says that the history has been replaced since.
        seen.head = max(seen.head ?? head, head)
    }

    /// Tells everybody of a new epoch.
    func announce(epoch: Int64, _ reason: String) {
        counted.newEpochs += 1
        log.write(.error, "the history's lineage was lost, a new epoch begins", nil, [("epoch", String(epoch))])
        guard link != nil else { return }
        outgoing.add(.announcement(messages.announcement(ofEpoch: epoch, reason)))
    }

    /// Runs a part of the work again and again while the store does not let it be done, until it is stopped. What does not
    /// pass by itself is told each time, and in the status.
    func surviving(_ part: Part, _ body: () async throws -> Void) async throws {
        _ = try await retry.run { error in
            failures[part] = error.message
            return true
        } _: {
            try await body()
        }
        failures[part] = nil
    }

    /// What the cleaner does side by side.
    enum Part: Hashable, CaseIterable {
        case cleaning, acknowledgements
    }
}

extension AgentStep {
    fileprivate init(_ step: CleaningStep) {
        self =
            switch step {
            case .beforeChunk: .cleanerBeforeChunk
            case .betweenChunks: .cleanerBetweenChunks
            case .beforeMark: .cleanerBeforeMark
            case .afterMark: .cleanerAfterMark
            }
    }
}
