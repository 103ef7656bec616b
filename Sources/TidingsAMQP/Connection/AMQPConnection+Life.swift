extension AMQPConnection {
    /// Connects, serves, recovers; until it is to be closed, or may not recover.
    func live() async throws(AMQPError) {
        var attempt = 0
        var since = ContinuousClock.now
        var endpoint = Int.random(in: 0..<configuration.endpoints.count)
        while !checkClosing() {
            var openedAt: ContinuousClock.Instant?
            do throws(AMQPError) {
                try await connect(to: configuration.endpoints[endpoint])
                try await declareAll()
                try await openChannels()
                openedAt = .now
                status.set(session?.blockedReason.map { .blocked(reason: $0) } ?? .open)
                pumpAll()
                try await serve()
            } catch {
                drop(error)
                if checkClosing() { return }
                guard case .always(let backoff) = configuration.recovery else { throw error }
                // A connection that held begins the count anew; one that ended at once does not.
                if let openedAt, ContinuousClock.now - openedAt > .seconds(1) { attempt = 0 }
                if attempt == 0 { since = .now }
                attempt += 1
                endpoint = (endpoint + 1) % configuration.endpoints.count
                status.set(.recovering(attempt: attempt, since: since, error: error))
                // With several endpoints the first round goes without delay.
                guard attempt >= configuration.endpoints.count else { continue }
                let delay = backoff.delay(
                    attempt: attempt - configuration.endpoints.count + 1, random: .random(in: 0..<1))
                await pause(until: .now + delay)
            }
        }
    }

    /// True where the connection is to be closed.
    private func checkClosing() -> Bool {
        if mailbox.closeDeadline != nil { isClosing = true }
        return isClosing
    }

    /// Waits; closing ends the wait.
    private func pause(until deadline: ContinuousClock.Instant) async {
        while !checkClosing(), ContinuousClock.now < deadline { await event(before: deadline) }
    }

    private func connect(to endpoint: AMQPEndpoint) async throws(AMQPError) {
        loss = nil
        let mailbox = mailbox
        let handOver = ConnectionHandOver()
        opening = handOver
        defer { opening = nil }
        let handle = try await ConnectionOpening(
            endpoint: endpoint, configuration: configuration,
            deadline: .now + configuration.connectTimeout(of: endpoint),
            watchdog: watchdog, onSocket: { mailbox.use($0) }
        ).open(handOver)
        session = Session(handle, at: .now)
        // Before anything is delivered: whoever gets it sees the new epoch.
        status.opened()
    }

    /// Sees to what happens while the connection is open. Returns when it has been closed gracefully.
    private func serve() async throws(AMQPError) {
        while true {
            if let loss { throw loss }
            if checkClosing() { return await shutDown() }
            if needsChannels {
                try await restoreTopology()
                try await openChannels()
            } else {
                await event(before: consumers.values.compactMap(\.retryAt).min())
                if consumers.values.contains(where: { $0.isDue(at: .now) }) { needsChannels = true }
            }
        }
    }

    /// Declares again what a deleted queue took with it. On a half of it nothing is consumed: what was consumed tries
    /// again after a while, and tells why the broker refuses.
    private func restoreTopology() async throws(AMQPError) {
        guard mustDeclare else { return }
        do throws(AMQPError) {
            try await declareAll()
        } catch {
            guard session != nil else { throw error }
            mustDeclare = true
            for consumer in consumers.values where consumer.starter == nil && consumer.isDue(at: .now) {
                failed(consumer, error)
            }
        }
    }

    /// Ends the connection in order, until the deadline.
    private func shutDown() async {
        let deadline = mailbox.closeDeadline ?? .now
        // Written as far as the window allows, and answered.
        while loss == nil, ContinuousClock.now < deadline, !publishers.values.allSatisfy(\.isIdle) {
            if needsChannels { try? await openChannels() } else { await event(before: deadline) }
        }
        guard loss == nil, let session else { return }
        for consumer in consumers.values { settle(consumer, at: .now + .seconds(60)) }
        _ = try? await call(.closeConnection, on: session.control, before: deadline)
    }

    /// The connection is gone: whoever waits for it is told. To be called as often as wished.
    func drop(_ error: AMQPError) {
        guard let session else { return }
        self.session = nil
        loss = error
        mailbox.use(nil)
        // The library may have closed the descriptor already, whose number is somebody else's then.
        session.handle.guarded.end()
        for channel in session.channels.values { channel.finish(.failure(error)) }
        session.control.finish(.failure(error))
        for publisher in publishers.values { publisher.lose(error) }
        for consumer in consumers.values {
            consumer.channel = nil
            consumer.buffer.lose()
        }
        needsChannels = true
        signal()
    }
}
