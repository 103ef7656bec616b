internal import PersistentHistory
internal import TidingsAMQP

/// Publishes messages over one connection until the broker has taken each of them, or nobody wanted it.
final class MessageSender: Sendable {
    /// What has come of messages.
    struct Counts: Sendable, Hashable {
        var confirmed = 0
        var unrouted = 0
        var nacked = 0
        var unknown = 0
        /// Those that left their changes out for the broker's own limit.
        var thin = 0
    }

    /// A batch's place in the order of writing.
    struct Turn: Sendable {
        /// Open once the batch before has its place; nil where there is none before.
        let previous: Gate?
        /// Open once this batch has its own.
        let hasEnded = Gate()
    }

    let connection: AMQPConnection
    private let publisher: AMQPPublisher
    private let names: BrokerNames
    private let retry: Backoff
    private let log: ServiceLog
    private let state = Locked((counts: Counts(), isDeclared: false))
    /// The largest body that the broker has said it takes; nil where it has not.
    private let brokerLimit = Locked<Int?>(nil)
    private let latestTurn = Locked<Turn?>(nil)

    init(
        _ connection: AMQPConnection, window: AMQPPublisher.Window, names: BrokerNames, retry: Backoff, log: ServiceLog
    ) async {
        self.connection = connection
        publisher = await connection.publisher(window: window)
        self.names = names
        self.retry = retry
        self.log = log
    }

    /// The turn after the one that was given before.
    func nextTurn() -> Turn {
        latestTurn.withLock { latest in
            let next = Turn(previous: latest?.hasEnded)
            latest = next
            return next
        }
    }

    var counts: Counts { state.withLock { $0.counts } }

    /// Publishes until everything is settled; what is not, is sent again under the same identity, and what is larger than
    /// the broker says that it takes, without its changes.
    ///
    /// - Parameters:
    ///   - turn: batches are written in the order of their turns, as long as nothing has to be sent again.
    ///   - didWrite: called once the broker may have something of it.
    ///   - didSettle: called with the positions of what is settled, as soon as an attempt is answered.
    /// - Throws: `CancellationError`, and `AMQPError` `closed` where the connection is at its end.
    func deliver(
        _ publications: [AMQPPublication], turn: Turn, didWrite: (@Sendable () -> Void)? = nil,
        didSettle: @Sendable ([Int]) async -> Void
    ) async throws {
        defer { turn.hasEnded.open() }
        var publications = publications
        var rest = Array(publications.indices)
        var attempt = 0
        while true {
            try await declare()
            await turn.previous?.wait()
            makeThin(&publications, rest)
            let results = try await publish(rest.map { publications[$0] }, turn, didWrite)
            let settled = zip(rest, results).filter { $1.isSettled }.map(\.0)
            count(results)
            if !settled.isEmpty {
                attempt = 0
                await didSettle(settled)
            }
            if settled.count == rest.count { return }
            rest = zip(rest, results).filter { !$1.isSettled }.map(\.0)
            attempt += 1
            report(results, rest.count)
            try await Task.sleep(for: retry.delay(attempt: attempt, random: .random(in: 0..<1)))
        }
    }

    private func publish(
        _ publications: [AMQPPublication], _ turn: Turn, _ didWrite: (@Sendable () -> Void)?
    ) async throws -> [PublishResult] {
        do {
            let didEnqueue: @Sendable () -> Void = { turn.hasEnded.open() }
            guard let didWrite else { return try await publisher.publish(publications, didEnqueue: didEnqueue) }
            // Only where a test asks for it: nothing tells of the writing. The answer may come before the first look.
            let before = await publisher.counts()
            async let results = publisher.publish(publications, didEnqueue: didEnqueue)
            while true {
                var now = await publisher.counts()
                now.waiting = before.waiting
                if now != before { break }
                try Task.checkCancellation()
                await Task.yield()
            }
            didWrite()
            return try await results
        } catch let error as AMQPError where !hasEnded {
            // What can never be sent as it is: shown, and tried again, since nothing may be left out.
            return Array(repeating: .unknown(error), count: publications.count)
        }
    }

    /// Leaves the changes out of what is larger than the broker takes.
    private func makeThin(_ publications: inout [AMQPPublication], _ positions: [Int]) {
        guard let limit = brokerLimit.withLock({ $0 }) else { return }
        let large = positions.filter { publications[$0].message.body.count > limit }
        guard !large.isEmpty else { return }
        var encoder = HistoryMessageEncoder(names: names, user: nil, limit: limit)
        for position in large {
            // What cannot be made smaller is sent as it is: the log tells why the broker refuses it.
            guard let thin = try? encoder.thin(of: publications[position].message) else { continue }
            publications[position].message = thin
            state.withLock { $0.counts.thin += 1 }
        }
    }

    /// Remembers the broker's limit where an error tells it; false for any other error.
    private func learn(from error: AMQPError) -> Bool {
        guard let limit = error.sizeLimit else { return false }
        let isNew = brokerLimit.withLock { known in
            guard limit < known ?? .max else { return false }
            known = limit
            return true
        }
        guard isNew else { return true }
        if limit < HistoryMessageEncoder.leastLimit {
            log.write(
                .error, "the broker takes no messages that are as large as history needs: raise its max_message_size",
                nil, [("limit", String(limit)), ("needed", String(HistoryMessageEncoder.leastLimit))])
        } else {
            log.write(
                .warning,
                "the broker takes no larger messages, larger transactions go without their changes: raise its "
                    + "max_message_size, or lower messageLimit to it", nil, [("limit", String(limit))])
        }
        return true
    }

    /// Declares the exchanges, once a connection of the broker's is there. Where that is refused, publishing will show it.
    private func declare() async throws {
        var attempt = 0
        while !state.withLock({ $0.isDeclared }) {
            do {
                try await connection.declare(names.publishing)
                state.withLock { $0.isDeclared = true }
            } catch let error as AMQPError where error.isFatal {
                log.write(.error, "the exchanges cannot be declared", error)
                state.withLock { $0.isDeclared = true }
            } catch is AMQPError where !hasEnded {
                // A channel may also be closed under the declaration: only the connection's own end is an end.
                attempt += 1
                try await Task.sleep(for: retry.delay(attempt: attempt, random: .random(in: 0..<1)))
            }
        }
    }

    /// True where the connection is at its end, for good.
    private var hasEnded: Bool {
        if case .closed = connection.state { true } else { false }
    }

    private func count(_ results: [PublishResult]) {
        state.withLock { state in
            for result in results {
                switch result {
                case .confirmed: state.counts.confirmed += 1
                case .returned: state.counts.unrouted += 1
                case .nacked: state.counts.nacked += 1
                case .unknown(let error):
                    state.counts.unknown += 1
                    if error.code == .notFound { state.isDeclared = false }
                }
            }
        }
    }

    private func report(_ results: [PublishResult], _ count: Int) {
        for case .unknown(let error) in results {
            let level = error.isFatal && !learn(from: error) ? HistoryLogLevel.error : .info
            return log.write(level, "messages are sent again", error, [("count", String(count))])
        }
        log.write(.warning, "the broker refuses messages, they are sent again", nil, [("count", String(count))])
    }
}

extension AMQPError {
    /// The largest body in bytes that the broker takes, where this says that one was larger.
    ///
    /// RabbitMQ's words, of 3.8 to 4.x: `message size 200123 is larger than configured max size 65536`; without
    /// `configured` where it has its own default.
    var sizeLimit: Int? {
        guard code == .preconditionFailed, message.contains("message size "),
            let words = message.firstRange(of: " is larger than "),
            let size = message[words.upperBound...].firstRange(of: "max size ")
        else { return nil }
        return Int(message[size.upperBound...].prefix { $0.isASCII && $0.isNumber })
    }
}

extension PublishResult {
    /// True where nothing more is to be done: the broker has it, or no queue wanted it.
    fileprivate var isSettled: Bool {
        switch self {
        case .confirmed, .returned: true
        case .nacked, .unknown: false
        }
    }
}
