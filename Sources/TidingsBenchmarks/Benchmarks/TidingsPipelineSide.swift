import HistoryMessaging
import LocalContexts
import PersistentHistory
import TidingsAMQP
import TidingsSQLite

/// The pipeline by the library: a store with a publisher, and a consumer with a store object of its own, as another
/// process would have.
actor TidingsPipelineSide {
    nonisolated var services: [any HistoryService] { [publisher, consumer] }
    private let publisher: HistoryPublisher
    private let store: HistoryStore
    private let readingStore: HistoryStore
    private let broker: Broker
    private let consumer: HistoryConsumer
    private let times: MergeTimes
    private var workload: ArticleWorkload
    /// Commits so far, each of which is published.
    private var commits = 0

    /// - Parameter path: a database with articles, and nobody else's.
    init(_ endpoint: BrokerEndpoint, _ path: String, rows: Int) async throws {
        guard let port = UInt16(exactly: endpoint.port) else { throw BenchmarkError("no port: \(endpoint.port)") }
        let configuration = AMQPConfiguration(
            [
                AMQPEndpoint(
                    host: endpoint.host, port: port, virtualHost: endpoint.virtualHost,
                    credentials: .plain(user: endpoint.user, password: endpoint.password))
            ], name: "benchmark")
        broker = Broker(configuration, prefix: "tidings-benchmark-\(UInt64.random(in: 0 ... .max))")
        store = try await HistoryStore.open(path, author: "benchmark", create: true)
        try await store.track(["article"])
        readingStore = try await HistoryStore.open(path, author: "reader")
        workload = ArticleWorkload(rows: rows)
        let times = MergeTimes()
        self.times = times
        var options = HistoryConsumer.Options()
        options.start = .now
        options.tokenDirectory = path + "-tokens"
        options.onStep = { step in if step == .consumerAfterToken { times.tokenIsDurable() } }
        let context = ClosureContext("times") { batch in
            for transaction in batch.transactions { try transaction.changes.decode { _ in } }
            times.merge(batch)
        }
        consumer = HistoryConsumer(
            readingStore, name: "reader-1", contexts: [context], broker: broker, options: options)
        publisher = HistoryPublisher(store, broker: broker)
    }

    /// The bytes of a message's body, and of history's row; once the services have run.
    func sizes() async throws -> (body: Int, row: Int) {
        try await warmUp()
        let request = HistoryRequest(limit: 1, order: .newestFirst)
        var encoder = HistoryMessageEncoder(names: broker.names(for: store), user: broker.user)
        var size = 0
        for try await transaction in store.history(request) {
            size = try await encoder.encode(transaction, previousNonce: 1).message.body.count
        }
        let sql = """
            SELECT avg(length(author) + length(origin) + length(entities) + length(changes) + 16 + 10) FROM
            (SELECT * FROM history_transaction ORDER BY sequence DESC LIMIT 10)
            """
        return (size, try await store.read { Int(try $0.first(sql, as: Double.self) ?? 0) })
    }

    /// Commits until deliveries come: the consumer has its queue then.
    private func warmUp() async throws {
        let deadline = ContinuousClock.now + .seconds(60)
        while consumer.status().counts.deliveries == 0 {
            guard ContinuousClock.now < deadline else { throw BenchmarkError("no delivery within 60 s") }
            let token = try await commit()
            try await consumer.waitUntilCaughtUp(to: token)
            try await settle(token)
        }
    }

    private func commit() async throws -> HistoryToken {
        workload.prepare(.update)
        let row = workload
        guard let token = try await store.write({ try row.write(.update, $0) }).token else {
            throw BenchmarkError("a commit has no token")
        }
        commits += 1
        return token
    }

    /// One commit after the other, each merged before the next; latencies from the commit's beginning to the token.
    func oneByOne(_ count: Int) async throws -> [UInt64] {
        var latencies: [UInt64] = []
        latencies.reserveCapacity(count)
        for _ in 0..<count {
            let start = MonotonicClock.nanoseconds
            let token = try await commit()
            try await times.waitUntilDurable(through: token.sequence)
            latencies.append(MonotonicClock.nanoseconds - start)
            try await settle(token)
        }
        return latencies
    }

    /// Waits until nothing is under way. A consumer takes any delivery for a hint to look into the store: one that is late
    /// would have the next commit merged before its own is even published.
    private func settle(_ token: HistoryToken) async throws {
        try await publisher.waitUntilPublished(through: token)
        let deadline = ContinuousClock.now + .seconds(60)
        while await publisher.status().unrouted + consumer.status().counts.deliveries < commits {
            guard ContinuousClock.now < deadline else { throw BenchmarkError("deliveries are missing after 60 s") }
            try await Task.sleep(for: .microseconds(200))
        }
        try await Task.sleep(for: .microseconds(RawPipeline.pause))
    }

    /// Commits flat out: the figures when the last is merged, and when the broker has confirmed the last, which may be later,
    /// since a consumer reads the store.
    func flatOut(_ count: Int) async throws -> (merged: RunFigures, published: RunFigures) {
        let times = times
        times.begin(after: try await store.currentToken().sequence, count: count)
        let meter = RunMeter(.process)
        workload = try await store.writeRepeatedly(count, from: workload) { database, workload in
            times.commit()
            workload.prepare(.update)
            try workload.write(.update, database)
        }
        let last = try await store.currentToken()
        commits += count
        try await times.waitUntilDurable(through: last.sequence)
        let latencies = times.latencies
        guard latencies.count == count else { throw BenchmarkError("merged \(latencies.count) of \(count)") }
        let figures = meter.figures(latencies: latencies)
        try await publisher.waitUntilPublished(through: last)
        let published = meter.figures(latencies: latencies)
        try await settle(last)
        return (figures, published)
    }

    /// Closes the files, and takes away what the broker keeps.
    func close() async throws {
        await store.close()
        await readingStore.close()
        guard let configuration = broker.configuration else { return }
        let names = broker.names(for: store)
        try await AMQPConnection.withConnection(configuration) { connection in
            for queue in [names.queue(of: "reader-1"), names.deadQueue] { try await connection.delete(queue: queue) }
            for exchange in names.exchanges { try await connection.delete(exchange: exchange.name) }
        }
    }
}
