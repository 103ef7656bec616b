import Foundation
import HistoryMessaging
import PersistentHistory
import TidingsAMQP
import TidingsSQLite

extension TestAgent {
    /// `resources publisher|relay|cleaner STORE URL RUNS`: runs and stops a new one each time, over one store object. Prints
    /// how many threads of Tidings and descriptors there are after the first run, and again after so many.
    static func resources(_ arguments: [String]) async throws {
        guard arguments.count == 4, let runs = Int(arguments[3]) else { throw Usage() }
        let store = try await HistoryStore.open(arguments[1], author: "agent")
        let broker = try Broker(urls: arguments[2], storeName: "crash")
        var first: String?
        for _ in 1...runs {
            let living: Living
            switch arguments[0] {
            case "publisher": living = try await runPublisher(store, broker)
            case "relay": living = try await runRelay(store, broker)
            case "cleaner": living = try await runCleaner(store, broker)
            default: throw Usage()
            }
            // What holds it would do so for good.
            while living.agent != nil { try await Task.sleep(for: .milliseconds(1)) }
            guard first == nil else { continue }
            // What is started once for the process is there after the first run.
            first = try await settled()
            say(first ?? "")
        }
        // What ends by itself, soon.
        let deadline = ContinuousClock.now + .seconds(5)
        while try held() != first, ContinuousClock.now < deadline { try await Task.sleep(for: .milliseconds(10)) }
        say(try held())
        await store.close()
    }

    /// Notices whether an agent is still there.
    private struct Living {
        weak var agent: AnyObject?
    }

    /// What is held once it does not change any more.
    private static func settled() async throws -> String {
        var (now, since) = (try held(), ContinuousClock.now)
        while ContinuousClock.now < since + .milliseconds(500) {
            try await Task.sleep(for: .milliseconds(10))
            let next = try held()
            if next != now { (now, since) = (next, .now) }
        }
        return now
    }

    private static func run(
        _ service: any HistoryService, _ body: @escaping @Sendable () async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await service.run() }
            group.addTask {
                try await body()
                await service.stop()
            }
            while try await group.next() != nil {}
        }
    }

    private static func insert(_ store: HistoryStore) async throws -> HistoryToken {
        _ = try await store.write { db in try db.execute("INSERT INTO note(text) VALUES ('x')") }
        return try await store.currentToken()
    }

    private static func runPublisher(_ store: HistoryStore, _ broker: Broker) async throws -> Living {
        let publisher = HistoryPublisher(store, broker: broker)
        try await run(publisher) { [unowned publisher] in
            try await publisher.waitUntilPublished(through: insert(store))
        }
        return Living(agent: publisher)
    }

    private static func runRelay(_ store: HistoryStore, _ broker: Broker) async throws -> Living {
        var options = HistoryRelay.Options()
        options.grace = .milliseconds(10)
        options.pollInterval = .milliseconds(5)
        let relay = HistoryRelay(store, broker: broker, options: options)
        try await run(relay) { [unowned relay] in
            let last = try await insert(store).sequence
            while await relay.status().publishedThrough < last { try await Task.sleep(for: .milliseconds(1)) }
        }
        return Living(agent: relay)
    }

    private static func runCleaner(_ store: HistoryStore, _ broker: Broker) async throws -> Living {
        let cleaner = HistoryCleaner(store, broker: broker)
        let names = broker.names(for: store)
        try await run(cleaner) { [unowned cleaner] in
            let token = try await insert(store)
            let user = broker.user
            _ = try await store.register(RegistrationRequest(consumer: "c", author: "agent", user: user))
            try await acknowledge(token, names, broker)
            while await cleaner.status().recorded == 0 { try await Task.sleep(for: .milliseconds(1)) }
            _ = try await cleaner.clean()
        }
        return Living(agent: cleaner)
    }

    /// Acknowledges as a consumer does, until it is taken.
    private static func acknowledge(_ token: HistoryToken, _ names: BrokerNames, _ broker: Broker) async throws {
        guard let configuration = broker.configuration else { return }
        let message = AcknowledgementMessage(consumer: "c", author: "agent", token: token).message(user: broker.user)
        let address = AMQPAddress(
            exchange: names.acknowledgements, routingKey: names.acknowledgementKey(consumer: "c"))
        try await AMQPConnection.withConnection(configuration) { connection in
            try await connection.declare(names.cleaning)
            let publisher = await connection.publisher()
            while try await publisher.publish(message, to: address) != .confirmed {}
        }
    }

    private static func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }
}
