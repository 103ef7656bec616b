internal import PersistentHistory
internal import TidingsAMQP

/// The cleaner's two connections to the broker: over one it reads, over the other it sends, so that an alarm of the
/// broker's that stops the second does not stop acks.
struct CleanerLink: Sendable {
    let reading: AMQPConnection
    let sending: AMQPConnection
    let publisher: AMQPPublisher
    let names: BrokerNames
    let log: ServiceLog

    private static let retry = Backoff(first: .milliseconds(100), longest: .seconds(10))

    /// Makes the connections; nil where there is no broker.
    init?(_ broker: Broker, names: BrokerNames, log: ServiceLog) async throws {
        guard let reading = try broker.connection("cleaner"), let sending = try broker.connection("cleaner replies")
        else { return nil }
        self.reading = reading
        self.sending = sending
        publisher = await sending.publisher()
        self.names = names
        self.log = log
    }

    /// Acknowledgements and commands are a few hundred bytes; a larger delivery is rejected unread, in bytes.
    static let largestMessage = 1 << 20

    /// Serves both connections until they are closed.
    func run() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for connection in [reading, sending] { group.addTask { try await connection.serve() } }
            group.addTask { await log.follow(reading) }
            group.addTask { await declareForSending() }
            do {
                try await group.finishOrFail()
            } catch {
                await close(within: .zero)
                throw error
            }
        }
    }

    /// Closes both, once what was sent is answered; after `limit` at the latest.
    func close(within limit: Duration) async {
        await withTaskGroup(of: Void.self) { group in
            for connection in [reading, sending] { group.addTask { await connection.close(within: limit) } }
        }
    }

    /// Hands on what comes into a queue until the task is cancelled or the connection closed. A queue that somebody has
    /// deleted is declared again.
    ///
    /// - Parameters:
    ///   - tick: how often to look for deliveries that were rejected unread, since nobody is given these.
    ///   - countOversized: called with how many more they are.
    func receive(
        _ queue: String, prefetch: UInt16, tick: Duration, _ take: @Sendable (AMQPDelivery) -> Void,
        countOversized: @escaping @Sendable (Int) async -> Void
    ) async {
        var attempt = 0
        while !Task.isCancelled {
            do {
                try await reading.declare(names.cleaning)
                var options = AMQPConsumeOptions(prefetch: prefetch)
                options.maximumMessageSize = Self.largestMessage
                let consumer = try await reading.consume(queue, options)
                attempt = 0
                try await withThrowingDiscardingTaskGroup { group in
                    group.addTask { await Self.watchOversized(consumer, tick, countOversized) }
                    defer { group.cancelAll() }
                    for try await delivery in consumer { take(delivery) }
                }
                // The end of the sequence: the task was cancelled, or the connection closed.
                return
            } catch let error as AMQPError where error.code == .closed {
                return
            } catch is CancellationError {
                return
            } catch {
                attempt += 1
                log.write(attempt == 1 ? .warning : .debug, "the queue \(queue) cannot be read", error)
                try? await Task.sleep(for: Self.retry.delay(attempt: attempt, random: .random(in: 0..<1)))
            }
        }
    }

    /// Looks for what was rejected unread until it is cancelled, and once more then.
    private static func watchOversized(
        _ consumer: AMQPConsumer, _ tick: Duration, _ count: @Sendable (Int) async -> Void
    ) async {
        var seen = 0
        while true {
            let isLast = Task.isCancelled
            let oversized = consumer.counts.oversized
            if oversized > seen { await count(oversized - seen) }
            seen = oversized
            if isLast { return }
            try? await Task.sleep(for: tick)
        }
    }

    /// Publishes, and says for each message whether the broker has it or no queue wanted it.
    func publish(_ publications: [AMQPPublication]) async -> [Bool] {
        do {
            return try await publisher.publish(publications).map { result in
                switch result {
                case .confirmed, .returned: return true
                case .nacked: return false
                case .unknown(let error):
                    log.write(.info, "a message may not have been published", error)
                    return false
                }
            }
        } catch {
            log.write(.debug, "a message was not published", error)
            return publications.map { _ in false }
        }
    }

    /// Declares the exchanges on the sending connection too: over it they may be found missing.
    private func declareForSending() async {
        var attempt = 0
        while !Task.isCancelled {
            do {
                return try await sending.declare(names.publishing)
            } catch let error as AMQPError where error.code == .closed {
                return
            } catch {
                attempt += 1
                log.write(.debug, "the exchanges cannot be declared", error)
                try? await Task.sleep(for: Self.retry.delay(attempt: attempt, random: .random(in: 0..<1)))
            }
        }
    }
}
