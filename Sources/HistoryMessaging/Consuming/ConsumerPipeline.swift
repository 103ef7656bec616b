internal import PersistentHistory
internal import TidingsAMQP

/// One run of a consumer: an agent for each verb, and the order in which they work.
final class ConsumerPipeline: Sendable {
    private let store: HistoryStore
    private let options: HistoryConsumer.Options
    private let board: ConsumerBoard
    private let link: BrokerLink?
    private let file: TokenFile
    private let found: TokenFile.Found
    private let observer: HistoryObserver
    private let fetcher: HistoryFetcher
    private let merger: HistoryMerger
    private let acknowledger: HistoryAcknowledger
    private let registrar: ConsumerRegistrar
    private let failures: Locked<FailureStateMachine>
    /// How long a stop waits for the last acknowledgement, where the broker takes it.
    private static let longestFlush: Duration = .seconds(5)

    init(_ parts: Parts, file: TokenFile, found: TokenFile.Found) throws {
        let (store, options, board) = (parts.store, parts.options, parts.board)
        (self.store, self.options, self.board, self.file, self.found) = (store, options, board, file, found)
        link = try BrokerLink(parts.broker, store: store, consumer: parts.name)
        observer = HistoryObserver(store, name: parts.name, link: link, options: options, board: board)
        fetcher = HistoryFetcher(store, options, looksForBreaks: parts.contexts.contains { $0.canLoad })
        let isDamaged = if case .damaged = found { true } else { false }
        let acknowledger = HistoryAcknowledger(
            store, name: parts.name, author: parts.author, link: link, options: options, board: board, file: file,
            isDamaged: isDamaged)
        self.acknowledger = acknowledger
        merger = HistoryMerger(store, parts.contexts, options, hooks: parts.hooks, board: board) {
            try await acknowledger.remember($0)
        } prove: {
            try await acknowledger.prove($0)
        }
        registrar = ConsumerRegistrar(
            store, name: parts.name, author: parts.author, link: link, options: options, board: board,
            token: found.token
        ) { await acknowledger.repeatAcknowledgement() }
        failures = Locked(
            FailureStateMachine(backoff: options.retry, attemptsBeforeStall: options.attemptsBeforeStall))
    }

    /// What a run is made of.
    struct Parts: Sendable {
        let store: HistoryStore
        let name: String
        let author: String
        let contexts: [any MergeContext]
        let broker: Broker
        let options: HistoryConsumer.Options
        let hooks: Locked<HookRegistry>
        let board: ConsumerBoard
    }

    /// The agents, for tests that prove their end.
    var agents: [AnyObject] {
        let agents: [AnyObject?] = [
            self, observer, merger, acknowledger, registrar, file, link?.consuming, link?.publishing,
        ]
        return agents.compactMap(\.self)
    }

    /// Works until it is to stop.
    func run() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            if let link { group.addTask { await link.run() } }
            group.addTask { await self.observer.run() }
            group.addTask { await self.acknowledger.run() }
            group.addTask { await self.registrar.run() }
            defer { group.cancelAll() }
            try await work()
            await finish()
            await link?.close()
        }
    }

    /// The end of a run that was told to stop: what is merged is acknowledged, whatever the stop has interrupted.
    private func finish() async {
        // A token that was found and not examined yet is worth nothing.
        guard board.status.token != nil else { return }
        // Once more where it could not be written: what cannot be now is merged again.
        try? await remember()
        await tellPosition()
        guard let position = await durablePosition() else { return }
        await settle(head: nil)
        await acknowledger.acknowledge(position)
        await acknowledger.flush(within: Self.longestFlush)
    }

    /// Observe, fetch, merge, acknowledge.
    private func work() async throws {
        try await begin()
        while !board.isStopping {
            try Task.checkCancellation()
            board.set(.running)
            await carryOut(board.takeRewinds())
            _ = board.takeNews()
            // Nothing has failed that it could be meant for.
            _ = board.takeRetry()
            // Those that are merged already: what comes next may hold the consumer up for long.
            await settle(head: nil)
            let (isAtEnd, head) = try await drain()
            // What could not be written before: nobody is told of more than the file says.
            let isDurable = try await insist { try await self.remember() } != nil
            await tellPosition(isAtEnd: isAtEnd && isDurable)
            await settle(head: head)
            options.step(.consumerAfterBrokerAck)
            if isDurable, let position = await durablePosition() { await acknowledger.acknowledge(position) }
            if isAtEnd { await observe() }
        }
    }

    /// Acks the deliveries whose transactions are merged; the others wait.
    ///
    /// - Parameter head: how far the store went after those had come that wait already.
    private func settle(head: HistoryToken?) async {
        var arrivals = observer.takeArrivals()
        if let position = await durablePosition() {
            arrivals = await acknowledger.settle(arrivals, through: position, head: head)
        }
        for index in arrivals.indices { arrivals[index].wasThere = true }
        observer.putBack(arrivals)
    }

    /// Waits for something to fetch, or to do.
    private func observe() async {
        while !Task.isCancelled, !board.isInterrupted, !board.takeNews() {
            await board.wakeup.wait()
        }
    }

    /// Finds the consumer's place; tries until that goes well.
    ///
    /// A rewind on the way there is one attempt more at once, and stands in for where it was rewound to before; where
    /// that attempt fails, whoever asked is told why, and it is forgotten.
    private func begin() async throws {
        while !board.isStopping {
            let rewinds = board.takeRewinds()
            let pendingStart = board.pendingStart
            do {
                do {
                    try await findPlace()
                } catch {
                    for rewind in rewinds { rewind.continuation.resume(throwing: error) }
                    throw error
                }
                let isMoved = await carryOut(rewinds)
                if !isMoved, let pendingStart { try await merger.rewind(to: pendingStart) }
                board.settle(pendingStart: pendingStart)
                return await beginThere()
            } catch {
                try throwIfFatal(error)
                let mayStall = (error as? HistoryError).map { !$0.isRetriable } ?? true
                try await wait(after: error, page: nil, mayStall: mayStall)
            }
        }
    }

    /// The first snapshot waits for the cleaner, a while: what it holds is safe then.
    private func findPlace() async throws {
        try await registrar.check()
        if found.token == nil, link != nil {
            let deadline = ContinuousClock.now + options.registrationWait
            while !board.isProtected, !board.isStopping, !Task.isCancelled, ContinuousClock.now < deadline {
                await board.wakeup.wait(until: deadline)
            }
        }
        try await merger.begin(found)
    }

    private func beginThere() async {
        failures.withLock { $0.reset() }
        await tellPosition()
        await protectPosition()
        if !board.isProtected {
            options.log(.warning, "unprotected: history may be purged that this consumer needs, until it is registered")
        }
    }

    /// Sees to it that the store knows where the consumer stands, where that is further back than it knows.
    private func protectPosition() async {
        // Not what it was about to tell: that would hold nothing of what comes again.
        if let position = await durablePosition() { await acknowledger.acknowledge(position) }
        try? await registrar.check()
        registrar.checkAgain()
    }

    /// Fetches and merges page by page, at least up to where the store went after the first page.
    ///
    /// - Returns: whether everything is merged, and how far the store went after this had begun, where that is reached.
    private func drain() async throws -> (isAtEnd: Bool, head: HistoryToken?) {
        var head: HistoryToken?
        while !board.isStopping {
            try Task.checkCancellation()
            if board.isRewinding { return (false, nil) }
            guard let position = await merger.position else { break }
            let size = failures.withLock { $0.pageSize(after: position.sequence, usual: options.pageSize) }
            let fetched = try await insist { try await self.fetcher.page(after: position, size: size) }
            // Interrupted: by a stop, or since everything stands elsewhere now.
            guard let page = fetched else {
                head = nil
                continue
            }
            let end = page.batch.token
            // Fetched anew where it was not merged: alone, or from another place.
            if end.sequence > position.sequence, try await !merge(page) { continue }
            if page.isAtEnd { return (true, end) }
            // However much is written meanwhile, what has come is acked in between.
            if head?.epoch != end.epoch { head = try await insist { try await self.store.currentToken() } }
            if let head, head.epoch == end.epoch, end.sequence >= head.sequence { return (false, head) }
        }
        return (true, nil)
    }

    /// Merges a page, then makes the token durable.
    ///
    /// - Returns: false where it failed and is to be tried again.
    private func merge(_ page: FetchedPage) async throws -> Bool {
        do {
            options.step(.consumerBeforeMerge)
            try await merger.merge(page)
            options.step(.consumerAfterMerge)
        } catch {
            try await recover(from: error, page: page)
            return false
        }
        failures.withLock { $0.passed(batchThrough: page.batch.token.sequence) }
        board.set(.running)
        board.count {
            $0.transactions += page.batch.transactions.count
            $0.batches += 1
        }
        // No failure of the page's: it is merged, and nothing of it could be skipped.
        guard try await insist({ try await self.remember() }) != nil else { return false }
        failures.withLock { $0.reset() }
        options.step(.consumerAfterToken)
        await tellPosition()
        return true
    }

    private func remember() async throws {
        let (token, reloadedThrough) = await (merger.shared, merger.reloadedThrough)
        try await acknowledger.remember(StoredToken(token: token, reloadedThrough: reloadedThrough))
    }

    /// Up to where everybody has merged and the token's file says so; nil before that is known.
    private func durablePosition() async -> HistoryToken? {
        guard let position = await merger.position, let stored = await acknowledger.token,
            position.epoch == stored.epoch
        else { return nil }
        return position.sequence <= stored.sequence ? position : stored
    }

    private func tellPosition(isAtEnd: Bool = false) async {
        if let position = await durablePosition() { board.reached(position, isAtEnd: isAtEnd) }
    }

    /// Moves to where it is to be, one after the other.
    ///
    /// - Returns: true where it has moved.
    @discardableResult
    private func carryOut(_ rewinds: [ConsumerBoard.Rewind]) async -> Bool {
        var isMoved = false
        for rewind in rewinds {
            do {
                try await merger.rewind(to: rewind.start)
                isMoved = true
                failures.withLock { $0.reset() }
                await tellPosition()
                await protectPosition()
                rewind.continuation.resume()
            } catch {
                await tellPosition()
                rewind.continuation.resume(throwing: error)
            }
        }
        return isMoved
    }

    // MARK: Failures

    /// Tries until it goes well; nil where the run is to end, or everything stands elsewhere now.
    private func insist<Value: Sendable>(_ body: () async throws -> Value) async throws -> Value? {
        while !board.isStopping {
            do {
                let value = try await body()
                return value
            } catch {
                let isResynced = try await recover(from: error)
                if isResynced || board.isRewinding { return nil }
            }
        }
        return nil
    }

    /// Sees to a failure: finds new places where a token was lost, else waits until it may be tried again.
    ///
    /// - Returns: true where everything stands elsewhere now.
    /// - Throws: what nothing helps against.
    private func recover(from error: any Error) async throws -> Bool {
        try throwIfFatal(error)
        if try await resyncIfLost(error) { return true }
        let mayStall = (error as? HistoryError).map { !$0.isRetriable } ?? true
        try await wait(after: error, page: nil, mayStall: mayStall)
        return false
    }

    private func recover(from error: any Error, page: FetchedPage) async throws {
        try throwIfFatal(error)
        if try await resyncIfLost(error) { return }
        board.count { $0.failures += 1 }
        repeat {
            try await wait(after: error, page: page, mayStall: true)
        } while try await !skip(page)
    }

    /// Skips a page where somebody wants that: one transaction alone, or it could not be wanted.
    ///
    /// - Returns: false where it was tried and failed: everything is as before.
    private func skip(_ page: FetchedPage) async throws -> Bool {
        guard let position = await merger.position else { return true }
        let callers = board.takeSkips(after: position.sequence)
        guard !callers.isEmpty else { return true }
        do {
            try await merger.pass(page)
        } catch {
            for caller in callers { caller.resume(throwing: error) }
            try throwIfFatal(error)
            return false
        }
        failures.withLock { $0.passed(batchThrough: page.batch.token.sequence) }
        board.count { $0.skipped += 1 }
        board.set(.running)
        // It is passed: where the token cannot be written now, that is made up for before anybody is told of it.
        for caller in callers { caller.resume() }
        _ = try await insist { try await self.remember() }
        await tellPosition()
        return true
    }

    private func throwIfFatal(_ error: any Error) throws {
        // A hook may throw a cancellation of something of its own: only the run's counts.
        try Task.checkCancellation()
        if let error = error as? HistoryError, error.code == .closed || error.isFatal { throw error }
        if let error = error as? MessagingError, error.code == .damagedToken { throw error }
    }

    /// True where the error told of a lost token, and new places are found.
    private func resyncIfLost(_ error: any Error) async throws -> Bool {
        guard let error = error as? HistoryError, error.code == .tokenExpired || error.code == .tokenInvalid,
            await merger.shared != nil
        else { return false }
        var hasFailed = false
        while true {
            do {
                guard try await merger.resync() || hasFailed else { return false }
                break
            } catch {
                // Loading failed, say. Some may stand elsewhere already: nobody may go on before all do.
                hasFailed = true
                try throwIfFatal(error)
                try await wait(after: error, page: nil, mayStall: true)
                if board.isStopping { return true }
                await carryOut(board.takeRewinds())
            }
        }
        failures.withLock { $0.reset() }
        registrar.checkAgain()
        await tellPosition()
        return true
    }

    private func wait(after error: any Error, page: FetchedPage?, mayStall: Bool) async throws {
        let end = page?.batch.token.sequence
        let action = failures.withLock {
            $0.failed(batchThrough: end, mayStall: mayStall, random: .random(in: 0..<1))
        }
        let start = await merger.position?.sequence
        let position = page?.isSingle(after: start) == true ? start : nil
        let deadline: ContinuousClock.Instant?
        switch action {
        case .retry(let attempt, let delay):
            deadline = .now + delay
            board.set(.retrying(attempt: attempt, reason: "\(error)"), skippable: position)
            options.log(.warning, "failed, and is tried again: \(error)", [("attempt", "\(attempt)")])
        case .stall(let attempts):
            deadline = nil
            board.set(.stalled(reason: "\(error)"), skippable: position)
            options.log(
                .error, "stalled: \(error); retry it, or skip it with a reason", [("attempts", "\(attempts)")])
        }
        while !Task.isCancelled, !board.isInterrupted, deadline.map({ $0 > .now }) ?? true {
            await board.wakeup.wait(until: deadline)
        }
        try Task.checkCancellation()
        if board.takeRetry() { failures.withLock { $0.reset() } }
        if !board.isStopping { board.setRetrying() }
    }
}
