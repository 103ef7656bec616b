import FoundationEssentials
import TidingsAMQP

/// Uses a broker as services do, step by step, until all is done or a step fails. Leaves nothing behind.
struct BrokerExamination {
    /// A step, by its name.
    enum Step: String {
        case connect, authenticate, declare, publish, consume, delete

        /// Of the names of steps, the longest.
        static let width = Step.authenticate.rawValue.count
    }

    /// What came of a step.
    struct Finding {
        let step: Step
        /// The kind of fault; nil where all is well.
        let code: String?
        /// What was done; or the fault, and what helps.
        let message: String
    }

    /// What the names of the scratch queue and the scratch exchange begin with.
    static let prefix = "tidings.doctor."
    /// How long a step may take.
    private static let bound: Duration = .seconds(10)

    /// The broker that is examined.
    let endpoint: AMQPEndpoint
    /// Told of each step as it is done.
    let report: (Finding) -> Void

    private let configuration: AMQPConfiguration
    /// Of the scratch queue, and the scratch exchange where there is one.
    private let name = prefix + UUID().uuidString.lowercased()

    init(_ endpoint: AMQPEndpoint, name: String, report: @escaping (Finding) -> Void) {
        self.endpoint = endpoint
        self.report = report
        var configuration = AMQPConfiguration([endpoint], name: name)
        configuration.recovery = .never
        configuration.replyTimeout = Self.bound
        configuration.sendTimeout = Self.bound
        configuration.confirmTimeout = Self.bound
        self.configuration = configuration
    }

    /// Examines. True where all is well.
    func run() async -> Bool {
        let connection: AMQPConnection
        do {
            connection = try AMQPConnection(configuration)
        } catch {
            return failed(.connect, error)
        }
        async let running: Void? = try? connection.run()
        let isWell = await examine(connection)
        // The queue goes with the connection, where it was not deleted.
        await connection.close(within: .seconds(1))
        _ = await running
        return isWell
    }

    private func examine(_ connection: AMQPConnection) async -> Bool {
        guard await open(connection) else { return false }
        guard await perform(.declare, { try await declare(over: connection) }) else { return false }
        guard await perform(.publish, { try await publish(over: connection) }) else { return false }
        guard await perform(.consume, { try await consume(over: connection) }) else { return false }
        return await perform(.delete) {
            try await connection.delete(queue: name)
            return ""
        }
    }

    // MARK: Steps

    private func open(_ connection: AMQPConnection) async -> Bool {
        do {
            // Longer than an attempt takes: its own error tells more.
            try await connection.waitUntilOpen(within: configuration.connectTimeout * 2 + .seconds(5))
        } catch let error as AMQPError where [.authentication, .virtualHost, .closedByBroker].contains(error.code) {
            done(.connect)
            return failed(.authenticate, error)
        } catch {
            return failed(.connect, error)
        }
        done(.connect)
        done(.authenticate, "\(endpoint.credentials)")
        return true
    }

    private func declare(over connection: AMQPConnection) async throws -> String {
        try await permitted("configure") {
            // Exclusive ones may be without durability, also where a broker wants that of all others.
            let queue = AMQPQueue(name, isDurable: false, isExclusive: true, isAutoDelete: true)
            try await connection.declare(AMQPTopology(queues: [queue]))
        }
        return "a queue of its own"
    }

    private func publish(over connection: AMQPConnection) async throws -> String {
        let publisher = await connection.publisher()
        do {
            try await publish(to: .queue(name), publisher, connection)
            return "confirmed"
        } catch let error as AMQPError where error.code == .accessRefused {
            try await declareExchange(over: connection)
            try await permitted("write") {
                try await publish(to: AMQPAddress(exchange: name, routingKey: name), publisher, connection)
            }
            return
                "confirmed, by an exchange of its own: \(endpoint.credentials) may not write to the default exchange, "
                + "which services do not need"
        }
    }

    /// Binds the queue to an exchange that goes with it.
    private func declareExchange(over connection: AMQPConnection) async throws {
        try await permitted("configure") {
            let exchange = AMQPExchange(name, .direct, isDurable: false, isAutoDelete: true)
            try await connection.declare(AMQPTopology(exchanges: [exchange]))
        }
        do {
            let binding = AMQPBinding(queue: name, exchange: name, key: name)
            try await connection.declare(AMQPTopology(bindings: [binding]))
        } catch let error as AMQPError where error.code == .accessRefused {
            // Binding writes to the queue, and reads from the exchange.
            throw missing(error.message.contains("access to exchange") ? "read" : "write")
        }
    }

    /// Publishes twice: under an alarm the broker takes one message, and then nothing more.
    private func publish(to address: AMQPAddress, _ publisher: AMQPPublisher, _ connection: AMQPConnection) async throws
    {
        for number in 1...2 {
            let message = AMQPMessage("\(number)", properties: AMQPProperties(isPersistent: false))
            let result = try await bounded(connection) { try await publisher.publish(message, to: address) }
            switch result {
            case .confirmed: break
            case .nacked: throw Fault("nacked", "the broker refused the message: see its log")
            case .returned(_, let text):
                throw Fault("returned", "the broker found no way to the queue (\(text)): see its log")
            case .unknown(let error): throw error
            }
        }
    }

    private func consume(over connection: AMQPConnection) async throws -> String {
        let consumer = try await permitted("read") {
            try await connection.consume(name, AMQPConsumeOptions(prefetch: 2))
        }
        for number in 1...2 {
            let delivery = try await bounded(connection) { try await consumer.makeAsyncIterator().next() }
            guard let delivery, delivery.message.body == Array("\(number)".utf8), delivery.ack() else {
                throw Fault("delivery", "what was delivered is not what was published: see the broker's log")
            }
        }
        return "delivered and acknowledged"
    }

    // MARK: Faults

    /// Why a step failed, in this tool's own words.
    private struct Fault: Error {
        let code: String
        let message: String

        init(_ code: String, _ message: String) {
            self.code = code
            self.message = message
        }
    }

    /// What an alarm is called, and what ends it.
    private static func alarm(_ reason: String) -> Fault {
        let (name, remedy) =
            switch reason {
            case "low on memory": ("memory", "free memory, or raise vm_memory_high_watermark")
            case "low on disk": ("disk", "free space on its disk, or lower disk_free_limit")
            default: (reason, "free memory and disk space")
            }
        return Fault("blocked", "blocked by an alarm: \(name): \(remedy) (rabbitmq-diagnostics alarms names the node)")
    }

    private func missing(_ permission: String) -> Fault {
        Fault(
            "\(permission)Permission",
            "\(endpoint.credentials) lacks the \(permission) permission for names that begin with '\(Self.prefix)' in "
                + "virtual host '\(endpoint.virtualHost)': give it (rabbitmqctl set_permissions)")
    }

    /// Does what takes a permission, and names that where it is missing.
    private func permitted<Value: Sendable>(
        _ permission: String, _ body: () async throws -> Value
    ) async throws -> Value {
        do {
            return try await body()
        } catch let error as AMQPError where error.code == .accessRefused {
            throw missing(permission)
        }
    }

    /// Waits for an answer as long as a step may take, and no longer than until the broker says that it is blocked.
    private func bounded<Value: Sendable>(
        _ connection: AMQPConnection, _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        try await withThrowingTaskGroup(of: Value?.self) { group in
            group.addTask { try await body() }
            group.addTask {
                for await case .blocked(let reason) in connection.states() { throw Self.alarm(reason) }
                return nil
            }
            group.addTask {
                try await Task.sleep(for: Self.bound)
                throw AMQPError(.timedOut, "no answer within \(Self.bound): check the broker's health, and its log")
            }
            defer { group.cancelAll() }
            while let value = try await group.next() {
                if let value { return value }
            }
            throw CancellationError()
        }
    }

    private func perform(_ step: Step, _ body: () async throws -> String) async -> Bool {
        do {
            done(step, try await body())
            return true
        } catch {
            return failed(step, error)
        }
    }

    private func done(_ step: Step, _ message: String = "") {
        report(Finding(step: step, code: nil, message: message))
    }

    private func failed(_ step: Step, _ error: any Error) -> Bool {
        let finding =
            switch error {
            case let fault as Fault: Finding(step: step, code: fault.code, message: fault.message)
            case let error as AMQPError: Finding(step: step, code: error.code.rawValue, message: error.message)
            default: Finding(step: step, code: "failed", message: "\(error)")
            }
        report(finding)
        return false
    }
}
