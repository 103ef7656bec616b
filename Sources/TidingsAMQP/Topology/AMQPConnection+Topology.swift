extension AMQPConnection {
    /// Declares exchanges, queues and bindings, now and on every later connection.
    ///
    /// Declaring what exists already changes nothing. Waits for the connection, at most the reply timeout. Throws
    /// `preconditionFailed`, with the queue or exchange and the argument, where one exists with other arguments;
    /// `accessRefused`, `notFound`, `resourceLocked`, or why there is no connection. After an error a part may have been
    /// declared, and nothing of it is declared again.
    public func declare(_ topology: AMQPTopology) async throws {
        try topology.check()
        try await scratch { channel async throws(AMQPError) in
            try await self.declare(topology, on: channel)
        }
        self.topology.merge(topology)
    }

    /// How many messages of a queue are ready to be delivered, and how many consumers it has.
    ///
    /// Throws `notFound` where there is no such queue.
    public func inspect(queue: String) async throws -> (messages: Int, consumers: Int) {
        try MessageLimits.checkShort("queue's name", queue)
        let reply = try await scratch { channel async throws(AMQPError) in
            try await self.call(.inspectQueue(queue), on: channel)
        }
        guard case .queue(let messages, let consumers) = reply else { return (0, 0) }
        return (Int(messages), Int(consumers))
    }

    /// Deletes a queue with its messages, where it exists; it is not declared again.
    public func delete(queue: String) async throws {
        try MessageLimits.checkShort("queue's name", queue)
        topology.removeQueue(queue)
        _ = try await scratch { channel async throws(AMQPError) in
            try await self.call(.deleteQueue(queue), on: channel)
        }
    }

    /// Deletes an exchange, where it exists; it is not declared again.
    public func delete(exchange: String) async throws {
        try MessageLimits.checkShort("exchange's name", exchange)
        topology.removeExchange(exchange)
        _ = try await scratch { channel async throws(AMQPError) in
            try await self.call(.deleteExchange(exchange), on: channel)
        }
    }

    /// Takes a binding away, where it exists; it is not made again.
    public func unbind(_ binding: AMQPBinding) async throws {
        try AMQPTopology(bindings: [binding]).check()
        topology.bindings.removeAll { $0 == binding }
        _ = try await scratch { channel async throws(AMQPError) in
            try await self.call(.unbind(binding), on: channel)
        }
    }

    /// Declares all that is to be there on every connection.
    func declareAll() async throws(AMQPError) {
        mustDeclare = false
        guard !topology.isEmpty else { return }
        let channel = try await openChannel(.requests)
        try await declare(topology, on: channel, isRestoring: true)
        closeChannel(channel)
    }

    /// Declares one thing after the other. What is restored is looked at anew before each: it may have been deleted.
    private func declare(
        _ topology: AMQPTopology, on channel: Channel, isRestoring: Bool = false
    ) async throws(AMQPError) {
        for exchange in topology.exchanges
        where !isRestoring || self.topology.exchanges.contains(where: { $0.name == exchange.name }) {
            _ = try await call(.declareExchange(exchange), on: channel)
        }
        for queue in topology.queues
        where !isRestoring || self.topology.queues.contains(where: { $0.name == queue.name }) {
            _ = try await call(.declareQueue(queue), on: channel)
        }
        for binding in topology.bindings where !isRestoring || self.topology.bindings.contains(binding) {
            _ = try await call(.bind(binding), on: channel)
        }
    }

    /// Lends a channel that the broker may close for an error without harm to anything else.
    private func scratch<Value>(_ body: (Channel) async throws(AMQPError) -> Value) async throws -> Value {
        if !status.state.isConnected { try await waitUntilOpen(within: configuration.replyTimeout) }
        let channel = try await openChannel(.requests)
        let value = try await body(channel)
        closeChannel(channel)
        return value
    }
}
