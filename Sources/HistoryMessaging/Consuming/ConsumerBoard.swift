internal import PersistentHistory
internal import TidingsAMQP

/// What is known of a consumer and what is wanted of it: written and read by its agents and by whoever asks.
final class ConsumerBoard: Sendable {
    private struct Waiter {
        let id: Int
        let token: HistoryToken
        let continuation: CheckedContinuation<Void, any Error>
    }

    /// A place to move to, and who waits for that.
    struct Rewind {
        let start: HistoryConsumer.Start
        let continuation: CheckedContinuation<Void, any Error>
    }

    private struct Skip {
        /// The sequence behind which the transaction stands that is to be skipped.
        let sequence: Int64
        let continuation: CheckedContinuation<Void, any Error>
    }

    private struct Content {
        var status = ConsumerStatus()
        var isRunning = false
        var isStopping = false
        var hasNews = false
        var wantsRetry = false
        var skips: [Skip] = []
        /// The sequence at which what failed begins; nil where there is nothing that could be skipped.
        var skippable: Int64?
        var rewinds: [Rewind] = []
        /// See ``pendingStart``.
        var pendingStart: HistoryConsumer.Start?
        var waiters: [Waiter] = []
        var stoppers: [CheckedContinuation<Void, Never>] = []
        var lastID = 0
        /// See ``farthest``.
        var farthest: HistoryToken?

        mutating func takeSkips(_ isTaken: (Skip) -> Bool) -> [Skip] {
            let taken = skips.filter(isTaken)
            skips.removeAll(where: isTaken)
            return taken
        }
    }

    private let content = Locked(Content())
    /// Ends the pipeline's wait.
    let wakeup = Wakeup()

    var status: ConsumerStatus { content.withLock { $0.status } }
    var isProtected: Bool { content.withLock { $0.status.isProtected } }
    var isStopping: Bool { content.withLock { $0.isStopping } }
    /// True where the pipeline's wait after a failure is over.
    var isInterrupted: Bool {
        content.withLock { $0.isStopping || $0.wantsRetry || !$0.skips.isEmpty || !$0.rewinds.isEmpty }
    }

    var isRewinding: Bool { content.withLock { !$0.rewinds.isEmpty } }

    // MARK: The run

    /// Begins a run; false where one is under way.
    func begin() -> Bool {
        content.withLock { content in
            guard !content.isRunning else { return false }
            content.isRunning = true
            content.isStopping = false
            content.hasNews = false
            content.wantsRetry = false
            content.status.state = .starting
            // What it was before tells nothing of where it will find its place.
            content.status.token = nil
            return true
        }
    }

    /// Ends a run: whoever waits for it, or for what it would have done, goes on.
    func end(_ error: (any Error)?) {
        let (stoppers, waiters, callers) = content.withLock { content in
            content.isRunning = false
            content.status.state = .stopped
            content.status.broker = nil
            content.skippable = nil
            defer { (content.stoppers, content.waiters, content.rewinds, content.skips) = ([], [], [], []) }
            let callers = content.rewinds.map(\.continuation) + content.skips.map(\.continuation)
            return (content.stoppers, content.waiters, callers)
        }
        let cause = error is CancellationError ? nil : error
        let reason = cause ?? MessagingError(.stopped, "the consumer was stopped before it came so far")
        for waiter in waiters { waiter.continuation.resume(throwing: reason) }
        for caller in callers { caller.resume(throwing: reason) }
        for stopper in stoppers { stopper.resume() }
    }

    /// Asks the run to end, and waits until it has.
    func stop() async {
        await withCheckedContinuation { continuation in
            let isRunning = content.withLock { content in
                guard content.isRunning else { return false }
                content.isStopping = true
                content.stoppers.append(continuation)
                return true
            }
            if isRunning { wakeup.signal() } else { continuation.resume() }
        }
    }

    /// - Parameter skippable: behind which sequence something may be skipped now. Whoever wants to skip something else
    ///   comes too late.
    func set(_ state: ConsumerStatus.State, skippable: Int64? = nil) {
        let late = content.withLock { content in
            content.status.state = state
            content.skippable = skippable
            return content.takeSkips { $0.sequence != skippable }
        }
        for skip in late { skip.continuation.resume(throwing: Self.late) }
    }

    /// Tries again what failed; until that goes well it may still be skipped.
    func setRetrying() { content.withLock { $0.status.state = .running } }

    private static let late = MessagingError(.invalid, "what was to be skipped does not hold the consumer up any more")

    func set(broker: AMQPConnectionState) { content.withLock { $0.status.broker = broker } }

    func set(isProtected: Bool) {
        content.withLock { $0.status.isProtected = isProtected }
        wakeup.signal()
    }

    func set(acknowledged token: HistoryToken) {
        content.withLock { content in
            content.status.acknowledged = token
            content.status.counts.acknowledgements += 1
        }
    }

    func count(_ change: (inout ConsumerCounts) -> Void) { content.withLock { change(&$0.status.counts) } }

    // MARK: News

    /// There is something to fetch, perhaps.
    func announceNews() {
        content.withLock { $0.hasNews = true }
        wakeup.signal()
    }

    func takeNews() -> Bool {
        content.withLock { content in
            defer { content.hasNews = false }
            return content.hasNews
        }
    }

    // MARK: Commands

    func retry() {
        content.withLock { $0.wantsRetry = true }
        wakeup.signal()
    }

    func takeRetry() -> Bool {
        content.withLock { content in
            defer { content.wantsRetry = false }
            return content.wantsRetry
        }
    }

    /// The sequence behind which something waits to be skipped; nil where nothing does.
    var skippable: Int64? { content.withLock { $0.skippable } }

    /// Waits until the transaction behind a sequence is skipped.
    func skip(after sequence: Int64) async throws {
        try await withCheckedThrowingContinuation { continuation in
            let isTaken = content.withLock { content in
                guard content.isRunning, !content.isStopping, content.skippable == sequence else { return false }
                content.skips.append(Skip(sequence: sequence, continuation: continuation))
                return true
            }
            if isTaken { wakeup.signal() } else { continuation.resume(throwing: Self.late) }
        }
    }

    /// Who waits for the skip of what stands behind a sequence.
    func takeSkips(after sequence: Int64) -> [CheckedContinuation<Void, any Error>] {
        content.withLock { content in content.takeSkips { $0.sequence == sequence }.map(\.continuation) }
    }

    /// Waits until the run has moved to another place. Where nothing runs, the next run will, and nobody waits.
    func rewind(to start: HistoryConsumer.Start) async throws {
        try await withCheckedThrowingContinuation { continuation in
            let isRunning = content.withLock { content in
                guard content.isRunning, !content.isStopping else {
                    // Under the lock that a run begins under: it cannot miss it.
                    content.pendingStart = start
                    return false
                }
                content.rewinds.append(Rewind(start: start, continuation: continuation))
                return true
            }
            if isRunning { wakeup.signal() } else { continuation.resume() }
        }
    }

    /// Where the consumer was rewound to while nothing ran, until a run has moved there, or elsewhere on somebody's word.
    var pendingStart: HistoryConsumer.Start? { content.withLock { $0.pendingStart } }

    /// The consumer has moved: what it was rewound to before is settled. A place that was asked for since then is not.
    func settle(pendingStart start: HistoryConsumer.Start?) {
        content.withLock { if $0.pendingStart == start { $0.pendingStart = nil } }
    }

    /// What is to be rewound to, with whoever waits for it.
    func takeRewinds() -> [Rewind] {
        content.withLock { content in
            defer { content.rewinds = [] }
            return content.rewinds
        }
    }

    // MARK: Progress

    /// Everything is merged durably up to a token.
    ///
    /// - Parameter isAtEnd: whether it is all that there is.
    func reached(_ token: HistoryToken, isAtEnd: Bool = false) {
        let waiters = content.withLock { content in
            content.status.token = token
            content.farthest = max(content.farthest ?? token, token)
            let reached = content.waiters.filter { Self.has(token, reached: $0.token, isAtEnd) }
            if !reached.isEmpty { content.waiters.removeAll { Self.has(token, reached: $0.token, isAtEnd) } }
            return reached.map(\.continuation)
        }
        for waiter in waiters { waiter.resume() }
    }

    /// The furthest token that a cleaner may have been told of: by this run, or by one before.
    var farthest: HistoryToken? { content.withLock { $0.farthest } }

    /// A cleaner may have been told of a token.
    func mayHaveTold(_ token: HistoryToken) { content.withLock { $0.farthest = max($0.farthest ?? token, token) } }

    /// How many wait for a token.
    var waiting: Int { content.withLock { $0.waiters.count } }

    /// Waits until everything is merged up to a token.
    func wait(for token: HistoryToken) async throws {
        let id = content.withLock { content in
            content.lastID += 1
            return content.lastID
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let mustWait = content.withLock { content in
                    if Task.isCancelled { return false }
                    if content.isRunning, let now = content.status.token, Self.has(now, reached: token, false) {
                        return false
                    }
                    content.waiters.append(Waiter(id: id, token: token, continuation: continuation))
                    return true
                }
                if mustWait {
                    announceNews()
                } else if Task.isCancelled {
                    continuation.resume(throwing: CancellationError())
                } else {
                    continuation.resume()
                }
            }
        } onCancel: {
            let waiter = content.withLock { content in
                content.waiters.firstIndex { $0.id == id }.map { content.waiters.remove(at: $0) }
            }
            waiter?.continuation.resume(throwing: CancellationError())
        }
    }

    /// What was written in an earlier epoch is merged where the sequence is reached; where it was lost, everything is merged
    /// that there is.
    private static func has(_ token: HistoryToken, reached wanted: HistoryToken, _ isAtEnd: Bool) -> Bool {
        if token.epoch == wanted.epoch { return token.sequence >= wanted.sequence }
        return token.epoch > wanted.epoch && (isAtEnd || token.sequence >= wanted.sequence)
    }
}
