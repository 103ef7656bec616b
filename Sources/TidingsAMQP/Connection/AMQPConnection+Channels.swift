extension AMQPConnection {
    /// Opens the channels of publishers and consumers that have none.
    func openChannels() async throws(AMQPError) {
        needsChannels = false
        // Copies: others come and go while a channel is opened.
        for publisher in publishers.values where publisher.channel == nil {
            guard publishers[publisher.id] === publisher else { continue }
            do throws(AMQPError) {
                try await open(publisher)
            } catch {
                guard session != nil else { throw error }
                publisher.refuse(error)
            }
        }
        for consumer in consumers.values where consumer.isDue(at: .now) {
            guard consumers[consumer.id] === consumer else { continue }
            do throws(AMQPError) {
                try await open(consumer)
            } catch {
                guard session != nil else { throw error }
                restart(consumer, error)
            }
        }
    }

    private func open(_ publisher: PublisherState) async throws(AMQPError) {
        let channel = try await openChannel(.publisher(publisher))
        _ = try await call(.selectConfirms, on: channel)
        guard isUsable(channel) else { throw lostChannel(.selectConfirms) }
        // Closed meanwhile.
        guard publishers[publisher.id] === publisher else { return closeChannel(channel) }
        publisher.channel = channel
        pump(publisher)
    }

    private func open(_ consumer: ConsumerState) async throws(AMQPError) {
        let channel = try await openChannel(.consumer(consumer))
        _ = try await call(.limitPrefetch(consumer.options.prefetch), on: channel)
        guard isUsable(channel) else { throw lostChannel(.limitPrefetch(consumer.options.prefetch)) }
        // Closed meanwhile.
        guard consumers[consumer.id] === consumer else { return closeChannel(channel) }
        consumer.buffer.begin()
        // Before the reply: deliveries may come with it.
        consumer.channel = channel
        let request = Request.consume(
            queue: consumer.queue, tag: "tidings-\(consumer.id)", isExclusive: consumer.options.isExclusive,
            arguments: consumer.options.arguments)
        _ = try await call(request, on: channel)
        guard consumers[consumer.id] === consumer else { return closeChannel(channel) }
        consumer.attempts = 0
        consumer.retryAt = nil
        consumer.started()
    }

    /// Gives up a consumer whose caller was cancelled before it began.
    func cancelStart(_ id: Int) {
        guard let consumer = consumers[id], let starter = consumer.starter else { return }
        consumer.starter = nil
        starter.resume(throwing: CancellationError())
        closeConsumer(id)
    }

    /// A consumer's channel could not be opened, or was closed by the broker.
    func failed(_ consumer: ConsumerState, _ error: AMQPError) {
        consumer.channel = nil
        consumer.buffer.lose()
        guard consumers[consumer.id] === consumer else { return }
        // A caller waits for the first attempt, and is told. Later ones are tried again, within reason.
        let isHopeless = consumer.starter != nil || (error.isFatal && consumer.attempts >= 3)
        if isHopeless {
            consumers[consumer.id] = nil
            consumer.end(error)
            return
        }
        consumer.attempts += 1
        let backoff = configuration.recovery.backoff
        consumer.retryAt = .now + backoff.delay(attempt: consumer.attempts, random: .random(in: 0..<1))
        signal()
    }

    /// The broker has closed a channel: it is told so, and the number is free again.
    func channelClosed(_ number: UInt16, _ close: BrokerClose) throws(AMQPError) {
        guard let session, let channel = session.channels[number] else { return }
        try session.handle.send(.confirmChannelClosed, channel: number)
        // Where both sides close at once, the broker answers ours too: only then is the number free.
        if !channel.isClosing { session.channels[number] = nil }
        let action = channel.pending?.request.name ?? "channel \(number)"
        let error = close.error(while: action)
        let wasCalling = channel.pending != nil
        channel.finish(.failure(error))
        switch channel.owner {
        case .requests: break
        case .publisher(let publisher):
            guard publisher.channel === channel else { return }
            publisher.lose(error)
            needsChannels = true
            signal()
        case .consumer(let consumer):
            // Where a request was under way, whoever made it sees to the rest.
            guard !wasCalling, consumer.channel === channel else { return }
            restart(consumer, error)
        }
    }

    /// The broker has ended a consumer: its queue is gone.
    func consumerCancelled(_ number: UInt16) {
        guard let channel = session?.channels[number], case .consumer(let consumer) = channel.owner else { return }
        closeChannel(channel)
        guard consumer.channel === channel else { return }
        restart(
            consumer,
            AMQPError(.consumerCancelled, "the broker ended the consumer of '\(consumer.queue)': the queue was deleted")
        )
    }

    /// Declares the topology again, for a queue that was deleted belongs to it; then consumes again.
    private func restart(_ consumer: ConsumerState, _ error: AMQPError) {
        // Whoever asks for a queue for the first time is told that it is not there.
        if consumer.starter == nil, error.code == .consumerCancelled || error.code == .notFound { mustDeclare = true }
        failed(consumer, error)
    }

    func openChannel(_ owner: Channel.Owner) async throws(AMQPError) -> Channel {
        guard let session else { throw lostChannel(.openChannel) }
        guard let channel = session.makeChannel(owner) else {
            throw AMQPError(.resources, "the connection has no channel left: close publishers or consumers")
        }
        _ = try await call(.openChannel, on: channel)
        return channel
    }

    /// Closes a channel without waiting: its number is free when the broker has agreed.
    func closeChannel(_ channel: Channel) {
        guard let session, session.channels[channel.number] === channel, !channel.isClosing else { return }
        channel.isClosing = true
        channel.owner = .requests
        session.handle.guarded.set(deadline: .now + configuration.sendTimeout)
        send(.closeChannel, on: channel)
    }
}

extension ConsumerState {
    /// True where it has no channel, and may try.
    func isDue(at now: ContinuousClock.Instant) -> Bool { channel == nil && (retryAt.map { $0 <= now } ?? true) }
}
