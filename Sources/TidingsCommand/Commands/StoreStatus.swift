import FoundationEssentials
import HistoryMessaging
import PersistentHistory
import TidingsAMQP
import TidingsSQLite

/// How far everybody who works on a store has come: what the store says, and what the broker's queues say.
struct StoreStatus: Sendable {
    /// A queue of the store's, as the broker sees it.
    struct Queue: Sendable {
        let name: String
        /// What waits and who reads; nil where there is no such queue.
        let content: (messages: Int, consumers: Int)?
    }

    /// What the broker says.
    struct BrokerSide: Sendable {
        let endpoint: String
        /// Why it could not be asked; nil where it could.
        let failure: String?
        let queues: [Queue]
    }

    let info: HistoryStoreInfo
    let consumers: [ConsumerRecord]
    /// When it was asked, in microseconds since 1970.
    let askedAt: Int64
    /// nil where no broker is configured.
    let broker: BrokerSide?

    /// Asks the store, and the broker where there is one.
    static func read(_ store: HistoryStore, _ broker: Broker) async throws -> StoreStatus {
        let consumers = try await store.consumers()
        return StoreStatus(
            info: try await store.info(), consumers: consumers, askedAt: SystemHistoryClock().microseconds,
            broker: await ask(broker, broker.names(for: store), consumers))
    }

    /// How many transactions a token is behind the newest one; nil where it is of another epoch.
    func lag(of token: HistoryToken) -> Int64? {
        token.epoch == info.head.epoch ? info.head.sequence - token.sequence : nil
    }

    /// The queue of a consumer, where the broker was asked.
    func queue(named name: String) -> Queue? { broker?.queues.first { $0.name == name } }

    private static func ask(
        _ broker: Broker, _ names: BrokerNames, _ consumers: [ConsumerRecord]
    ) async -> BrokerSide? {
        guard var configuration = broker.configuration else { return nil }
        configuration.recovery = .never
        configuration.replyTimeout = .seconds(5)
        let endpoint = configuration.endpoints.map(\.description).joined(separator: ", ")
        let asked =
            consumers.map { names.queue(of: $0.name) } + [
                names.acknowledgementQueue, names.controlQueue(of: "cleaner"), names.deadQueue,
            ]
        do {
            let queues = try await AMQPConnection.withConnection(configuration) { connection in
                var queues: [Queue] = []
                for name in asked { queues.append(Queue(name: name, content: try await content(name, connection))) }
                return queues
            }
            return BrokerSide(endpoint: endpoint, failure: nil, queues: queues)
        } catch {
            return BrokerSide(endpoint: endpoint, failure: CommandError.text(of: error), queues: [])
        }
    }

    private static func content(
        _ queue: String, _ connection: AMQPConnection
    ) async throws -> (messages: Int, consumers: Int)? {
        do {
            return try await connection.inspect(queue: queue)
        } catch let error as AMQPError where error.code == .notFound {
            return nil
        }
    }
}

extension StoreStatus {
    /// For people.
    var lines: [String] {
        let count = info.transactionCount
        var lines = [
            "store      \(info.path), epoch \(info.head.epoch)",
            "history    newest \(info.head.sequence), "
                + (count == 0 ? "nothing kept" : "\(count) kept from \(info.oldest.sequence + 1) on"),
            "published  \(published)",
        ]
        lines.append(consumers.isEmpty ? "consumers  none is registered" : "consumers")
        let width = consumers.map(\.name.count).max() ?? 0
        lines += consumers.map { "  \($0.name.padded(to: width))  \(line($0))" }
        guard let broker else { return lines + ["broker     none is configured"] }
        lines.append("broker     \(broker.endpoint)\(broker.failure.map { ": \($0)" } ?? "")")
        return lines + broker.queues.map { "  \($0.name): \(Self.text($0.content))" }
    }

    private var published: String {
        guard let sequence = info.publishedSequence else { return "off: no publisher has run on this store" }
        let behind = info.head.sequence - sequence
        return "up to \(sequence)"
            + (behind > 0 ? ", \(behind) to go as far as `tidings serve` or `tidings publish` has looked" : "")
    }

    private func line(_ consumer: ConsumerRecord) -> String {
        var parts = [consumer.role, consumer.state.rawValue]
        if let token = consumer.acknowledged {
            parts.append("acknowledged \(token.sequence)")
            parts.append(lag(of: token).map { $0 == 0 ? "up to date" : "\($0) behind" } ?? "in epoch \(token.epoch)")
        } else {
            parts.append("has never acknowledged")
        }
        if let time = consumer.acknowledgedAt { parts.append("\(max(0, askedAt - time) / 1_000_000) s ago") }
        return parts.joined(separator: ", ")
    }

    private static func text(_ content: (messages: Int, consumers: Int)?) -> String {
        guard let content else { return "does not exist" }
        return
            "\(content.messages) waiting, \(content.consumers == 0 ? "nobody reads" : "\(content.consumers) reading")"
    }
}

extension String {
    /// The text with spaces behind it, at least so many characters.
    func padded(to width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }
}

extension JSONWriter {
    /// Writes a status as an object.
    mutating func status(_ status: StoreStatus) {
        object { writer in
            writer.key("path")
            writer.string(status.info.path)
            writer.key("head")
            writer.token(status.info.head)
            writer.key("purged")
            writer.token(status.info.oldest)
            writer.key("published")
            if let sequence = status.info.publishedSequence { writer.integer(sequence) } else { writer.null() }
            writer.key("consumers")
            writer.array { writer in for consumer in status.consumers { writer.consumer(consumer, status) } }
            writer.key("broker")
            if let broker = status.broker { writer.broker(broker) } else { writer.null() }
        }
    }

    private mutating func consumer(_ consumer: ConsumerRecord, _ status: StoreStatus) {
        object { writer in
            writer.key("name")
            writer.string(consumer.name)
            writer.key("author")
            writer.string(consumer.author)
            writer.key("role")
            writer.string(consumer.role)
            writer.key("state")
            writer.string(consumer.state.rawValue)
            writer.key("floor")
            writer.integer(consumer.floor)
            writer.key("acknowledged")
            if let token = consumer.acknowledged { writer.token(token) } else { writer.null() }
            writer.key("behind")
            if let lag = consumer.acknowledged.flatMap(status.lag) { writer.integer(lag) } else { writer.null() }
            writer.key("acknowledged_time")
            writer.string(consumer.acknowledgedAt.map { RFC3339.string(microseconds: $0) })
        }
    }

    private mutating func broker(_ broker: StoreStatus.BrokerSide) {
        object { writer in
            writer.key("endpoint")
            writer.string(broker.endpoint)
            writer.key("error")
            writer.string(broker.failure)
            writer.key("queues")
            writer.array { writer in for queue in broker.queues { writer.queue(queue) } }
        }
    }

    private mutating func queue(_ queue: StoreStatus.Queue) {
        object { writer in
            writer.key("name")
            writer.string(queue.name)
            writer.key("messages")
            if let content = queue.content { writer.integer(Int64(content.messages)) } else { writer.null() }
            writer.key("consumers")
            if let content = queue.content { writer.integer(Int64(content.consumers)) } else { writer.null() }
        }
    }
}
