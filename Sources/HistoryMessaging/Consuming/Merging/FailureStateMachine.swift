internal import TidingsAMQP

/// When to try again what failed, and when to stop trying.
struct FailureStateMachine: Sendable {
    /// What is to be done after a failure.
    enum Action: Sendable, Hashable {
        /// Try again after a delay.
        case retry(attempt: Int, after: Duration)
        /// Try no more until somebody says so.
        case stall(attempts: Int)
    }

    private let backoff: Backoff
    private let attemptsBeforeStall: Int
    private(set) var attempts = 0
    /// Transactions up to this sequence are merged one by one, so that what fails stands alone.
    private var isolatedThrough: Int64 = -1

    init(backoff: Backoff, attemptsBeforeStall: Int) {
        self.backoff = backoff
        self.attemptsBeforeStall = max(1, attemptsBeforeStall)
    }

    /// An attempt failed.
    ///
    /// - Parameters:
    ///   - end: the sequence at which what failed ends; nil where it was no batch.
    ///   - mayStall: false for what passes by itself, however long that takes.
    ///   - random: from 0 up to 1.
    mutating func failed(batchThrough end: Int64?, mayStall: Bool, random: Double) -> Action {
        attempts += 1
        if let end { isolatedThrough = max(isolatedThrough, end) }
        guard !mayStall || attempts < attemptsBeforeStall else { return .stall(attempts: attempts) }
        return .retry(attempt: attempts, after: backoff.delay(attempt: attempts, random: random))
    }

    /// Something went well, or somebody wants it to be tried anew.
    mutating func reset() { attempts = 0 }

    /// A batch is merged, or skipped. Once all is that was to stand alone, nothing is any more: where the same comes again
    /// after a rewind, it comes in whole batches.
    mutating func passed(batchThrough end: Int64) {
        reset()
        if end >= isolatedThrough { isolatedThrough = -1 }
    }

    /// How many transactions the next batch may hold, after the one at `sequence`.
    func pageSize(after sequence: Int64, usual: Int) -> Int { sequence < isolatedThrough ? 1 : usual }
}
