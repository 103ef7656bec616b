/// A connection to a RabbitMQ broker, or to one of a cluster's, that recovers by itself.
///
/// It is an actor on a thread of its own, which alone touches the C library: blocking there holds up nobody else. Publish
/// and consume over two connections: a broker under an alarm stops reading from those that publish, acks included.
///
/// ```swift
/// let configuration = try AMQPConfiguration(urls: "amqp://localhost", name: "orders")
/// try await AMQPConnection.withConnection(configuration) { connection in
///     try await connection.declare(AMQPTopology(queues: [.quorum("orders")]))
///     let publisher = await connection.publisher()
///     let result = try await publisher.publish(AMQPMessage("Hello"), to: .queue("orders"))
/// }
/// ```
public actor AMQPConnection {
    /// How it reaches the broker, and the bounds of its waits.
    public nonisolated let configuration: AMQPConfiguration

    nonisolated let mailbox: Mailbox
    nonisolated let status = ConnectionStatus()
    private nonisolated let thread: ConnectionThread
    let watchdog: SocketWatchdog

    // MARK: State of the thread

    /// The connection, where there is one.
    var session: Session?
    /// The connection that is being made.
    var opening: ConnectionHandOver?
    /// Why it was lost, until `run()` has seen it.
    var loss: AMQPError?
    /// What is declared on every connection.
    var topology = AMQPTopology()
    var publishers: [Int: PublisherState] = [:]
    var consumers: [Int: ConsumerState] = [:]
    private var lastID = 0
    /// True where a publisher or consumer has no channel yet, or no more.
    var needsChannels = false
    /// True where the topology is to be declared again before that.
    var mustDeclare = false
    /// True from the moment that closing has begun.
    var isClosing = false

    /// `run()`, while it waits for something to happen.
    private var waiter: CheckedContinuation<Void, Never>?
    private var waiterDeadline: ContinuousClock.Instant?
    private var hasEvent = false

    /// The thread.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe thread.asUnownedSerialExecutor() }

    /// Makes a connection, and its thread; nothing is sent before ``run()``.
    ///
    /// Throws `resources` where the system has no thread or descriptor for it.
    public init(_ configuration: AMQPConfiguration) throws(AMQPError) {
        self.configuration = configuration
        thread = try ConnectionThread(name: "amqp-\(configuration.name)")
        watchdog = try SocketWatchdog.shared()
        mailbox = Mailbox(thread: thread)
        thread.attach { [weak self] isReadable in
            self?.assumeIsolated { $0.turn(isReadable: isReadable) } ?? .idle
        }
    }

    /// Runs a connection as long as a closure runs, which gets it once it is open; then closes it gracefully.
    ///
    /// Throws what the closure throws; or, where the broker cannot be reached within the configured bound, why.
    public static func withConnection<Value: Sendable>(
        _ configuration: AMQPConfiguration, _ body: @Sendable (AMQPConnection) async throws -> Value
    ) async throws -> Value {
        let connection = try AMQPConnection(configuration)
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await connection.run() }
            do {
                try await connection.waitUntilOpen(within: configuration.timeToOpen)
                let value = try await body(connection)
                await connection.close()
                try await group.waitForAll()
                return value
            } catch {
                await connection.close()
                group.cancelAll()
                throw error
            }
        }
    }

    /// What it is doing now.
    public nonisolated var state: AMQPConnectionState { status.state }

    /// How many connections it has opened so far: each begins a new epoch, in which nothing of an earlier one holds.
    public nonisolated var epoch: Int { status.epoch }

    /// What it is doing, now and from now on. Of more than 64 unread states the oldest are dropped.
    public nonisolated func states() -> AsyncStream<AMQPConnectionState> { status.states() }

    /// Connects and serves until ``close(within:)``; recovers as configured. To be called once.
    ///
    /// A cancellation closes at once, without waiting for answers. Throws `alreadyRunning` the second time, and where
    /// recovery is `never`, why the connection was lost or could not be made.
    public func run() async throws {
        guard status.begin() else {
            throw AMQPError(.alreadyRunning, "the connection '\(configuration.name)' runs, has run, or was closed")
        }
        let mailbox = mailbox
        try await withTaskCancellationHandler {
            do throws(AMQPError) {
                try await live()
                end(nil)
            } catch {
                end(error)
                throw error
            }
            try Task.checkCancellation()
        } onCancel: {
            mailbox.close(before: .now)
        }
    }

    /// Waits until requests can be made.
    ///
    /// Throws the last reason for failure, or `timedOut`, where that takes longer than `limit`; `closed` where the
    /// connection is at its end.
    public nonisolated func waitUntilOpen(within limit: Duration) async throws {
        let last = LastError()
        let states = states()
        let isOpen = try await withThrowingTaskGroup(of: Bool?.self) { group in
            group.addTask {
                for await state in states {
                    switch state {
                    case .open, .blocked: return true
                    case .recovering(_, _, let error): last.set(error)
                    case .closed(let error):
                        throw error ?? AMQPError(.closed, "the connection is closed")
                    case .idle, .connecting: break
                    }
                }
                return nil
            }
            group.addTask {
                try await Task.sleep(for: limit)
                return false
            }
            defer { group.cancelAll() }
            return try await group.next() ?? nil
        }
        try Task.checkCancellation()
        guard isOpen == true else {
            throw last.value ?? AMQPError(.timedOut, "no connection to \(configuration.endpoints[0]) within \(limit)")
        }
    }

    /// Closes: waits for the answers to what was published, sends the last acks, and says goodbye; all within `limit`,
    /// after which the socket is cut. What is unanswered then is reported unknown.
    public nonisolated func close(within limit: Duration = .seconds(5)) async {
        mailbox.close(before: .now + limit)
        if status.closeIdle() { return await end(nil) }
        let states = states()
        await withTaskGroup(of: Void.self) { group in
            group.addTask { for await _ in states {} }
            // The thread may be looking up a name, or connecting: these end by their own bounds.
            group.addTask { try? await Task.sleep(for: limit + SocketWatchdog.period * 2) }
            await group.next()
            group.cancelAll()
        }
    }

    /// Makes a publisher: its channel is opened when the connection is, and anew whenever it was lost.
    public func publisher(window: AMQPPublisher.Window = AMQPPublisher.Window()) -> AMQPPublisher {
        let state = PublisherState(id: nextID(), window: window)
        publishers[state.id] = state
        needsChannels = true
        signal()
        return AMQPPublisher(connection: self, id: state.id)
    }

    /// Consumes a queue. Returns when the broker has agreed.
    ///
    /// Throws why the broker refuses (`notFound`, `accessRefused`, `resourceLocked`, …), or `closed`.
    public func consume(
        _ queue: String, _ options: AMQPConsumeOptions = AMQPConsumeOptions()
    ) async throws -> AMQPConsumer {
        try MessageLimits.checkShort("queue's name", queue)
        _ = try MessageLimits.checkTable("the arguments of consuming '\(queue)'", options.arguments)
        if !status.state.isConnected {
            try await waitUntilOpen(within: configuration.timeToOpen)
        }
        let buffer = DeliveryBuffer(prefetch: options.prefetch, mailbox: mailbox)
        let state = ConsumerState(id: nextID(), queue: queue, options: options, buffer: buffer)
        let (mailbox, id) = (mailbox, state.id)
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                guard !Task.isCancelled else { return continuation.resume(throwing: CancellationError()) }
                guard !isClosing else {
                    return continuation.resume(throwing: AMQPError(.closed, "the connection is closed"))
                }
                state.starter = continuation
                consumers[id] = state
                needsChannels = true
                signal()
            }
        } onCancel: {
            mailbox.cancel(consumer: id)
        }
        return AMQPConsumer(queue: queue, connection: self, id: state.id, buffer: buffer)
    }

    // MARK: Events of `run()`

    /// Waits until something happens that `run()` has to see to, or until a time.
    func event(before deadline: ContinuousClock.Instant? = nil) async {
        guard !hasEvent else {
            hasEvent = false
            return
        }
        await withCheckedContinuation { continuation in
            guard !hasEvent else {
                hasEvent = false
                return continuation.resume()
            }
            waiterDeadline = deadline
            waiter = continuation
        }
    }

    /// Something has happened that `run()` has to see to.
    func signal() {
        waiterDeadline = nil
        guard let waiter else {
            hasEvent = true
            return
        }
        self.waiter = nil
        waiter.resume()
    }

    /// When `run()` wants to go on; it goes on where that is past.
    func checkWaiter(at now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
        guard let deadline = waiterDeadline else { return nil }
        if deadline <= now { signal() }
        return waiterDeadline
    }

    private func nextID() -> Int {
        lastID += 1
        return lastID
    }

    /// Ends everything, for good.
    private func end(_ error: AMQPError?) {
        isClosing = true
        drop(error ?? AMQPError(.closed, "the connection was closed"))
        let reason = error ?? AMQPError(.closed, "the connection was closed")
        for publisher in publishers.values { publisher.close(reason) }
        for consumer in consumers.values { consumer.end(error) }
        publishers = [:]
        consumers = [:]
        status.set(.closed(error))
    }
}

/// The last reason for which there was no connection.
private final class LastError: Sendable {
    private let error = Locked<AMQPError?>(nil)

    var value: AMQPError? { error.withLock { $0 } }

    func set(_ error: AMQPError) { self.error.withLock { $0 = error } }
}
