extension AMQPConnection {
    /// How many frames are taken in one turn, so that jobs are not kept waiting.
    private static let framesPerTurn = 1024

    /// What the thread does between jobs: read, settle, write, look at the time.
    func turn(isReadable: Bool) -> PollRequest {
        let cancelled = mailbox.takeCancelled()
        for batch in cancelled.batches {
            for publisher in publishers.values { publisher.cancel(batch) }
        }
        for id in cancelled.consumers { cancelStart(id) }
        if mailbox.closeDeadline != nil, !isClosing { signal() }
        let now = ContinuousClock.now
        guard let session else {
            return PollRequest(
                descriptor: -1,
                timeout: Self.timeout(Self.earlier(checkWaiter(at: now), checkOpening(at: now)), from: now))
        }
        session.handle.guarded.set(deadline: now + configuration.sendTimeout)
        session.listened(at: now)
        if isReadable { session.lastReceived = now }
        if isReadable || session.handle.hasBufferedFrames || now >= session.nextService { drain(session, at: now) }
        var next = settleAll(at: now)
        next = Self.earlier(next, pumpAll(at: now))
        next = Self.earlier(next, checkHeartbeat(at: now))
        if let session = self.session { next = Self.earlier(next, checkReplies(session, at: now)) }
        next = Self.earlier(next, checkWaiter(at: now))
        if isClosing, publishers.values.allSatisfy(\.isIdle) { signal() }
        guard let session = self.session else { return PollRequest(descriptor: -1, timeout: 0) }
        session.handle.guarded.set(deadline: nil)
        return PollRequest(
            descriptor: session.handle.descriptor,
            timeout: session.handle.hasBufferedFrames ? 0 : Self.timeout(next, from: now))
    }

    /// Gives up a connection that is being made when the time to close is over. Gives when that will be.
    private func checkOpening(at now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
        guard let opening, let deadline = mailbox.closeDeadline else { return nil }
        guard deadline <= now else { return deadline }
        opening.abandon()
        return nil
    }

    private static func earlier(
        _ one: ContinuousClock.Instant?, _ other: ContinuousClock.Instant?
    ) -> ContinuousClock.Instant? {
        guard let one, let other else { return one ?? other }
        return min(one, other)
    }

    private static func timeout(_ deadline: ContinuousClock.Instant?, from now: ContinuousClock.Instant) -> Int32 {
        guard let deadline else { return -1 }
        let (seconds, attoseconds) = max(.zero, deadline - now).components
        // One more millisecond: waking too early would only mean to wait again.
        return Int32(clamping: min(seconds, 1_000_000) * 1000 + attoseconds / 1_000_000_000_000_000 + 1)
    }

    /// Reads what there is.
    func drain(_ session: Session, at now: ContinuousClock.Instant) {
        defer { for consumer in consumers.values { consumer.buffer.handOver() } }
        session.nextService = now + max(.seconds(1), session.handle.heartbeat) / 2
        var frames = 0
        do throws(AMQPError) {
            repeat {
                guard let frame = try unsafe session.handle.receive() else { return }
                try unsafe handle(frame, session)
                session.lastReceived = now
                frames += 1
            } while self.session === session && frames < Self.framesPerTurn && session.handle.hasBufferedFrames
        } catch {
            if self.session === session { drop(error) }
        }
    }

    private func handle(_ frame: consuming Incoming, _ session: Session) throws(AMQPError) {
        switch unsafe frame {
        case .method(let number, let method):
            session.handle.releaseMemory(channel: number)
            try handle(method, on: number, session)
        case .header(let number, let size, let properties):
            defer { session.handle.releaseMemory(channel: number) }
            guard let channel = session.channels[number] else { return }
            let content = try unsafe channel.assembler.header(
                bodySize: size, session.handle.copy(properties), maximum: maximumMessageSize(of: channel))
            if let content { try deliver(content, to: channel) }
        case .body(let number, let piece):
            // For each piece, not for each message: a large body would be held twice.
            defer { session.handle.releaseMemory(channel: number) }
            guard let channel = session.channels[number] else { return }
            if let content = try unsafe channel.assembler.body(piece) { try deliver(content, to: channel) }
        }
    }

    private func handle(_ method: IncomingMethod, on number: UInt16, _ session: Session) throws(AMQPError) {
        switch method {
        case .ack(let tag, let isMultiple): try answered(tag, isMultiple, isNack: false, on: session.channels[number])
        case .nack(let tag, let isMultiple): try answered(tag, isMultiple, isNack: true, on: session.channels[number])
        case .delivery(let tag, let isRedelivered, let address):
            try session.channels[number]?.assembler.begin(
                .delivery(tag: tag, isRedelivered: isRedelivered, address))
        case .returned(let code, let text, let address):
            try session.channels[number]?.assembler.begin(.returned(code: code, text: text, address))
        case .reply(let reply): try replied(number, reply)
        case .channelClosed(let close): try channelClosed(number, close)
        case .consumerCancelled: consumerCancelled(number)
        case .blocked(let reason):
            session.blockedReason = reason
            status.set(.blocked(reason: reason))
        case .unblocked:
            session.blockedReason = nil
            session.takingSince = .now
            status.set(.open)
        case .connectionClosed(let close):
            try? session.handle.send(.confirmConnectionClosed, channel: 0)
            let text = "the broker closed the connection: \(close.text)"
            throw AMQPError(.closedByBroker, text, replyCode: close.code)
        case .ignored: break
        }
    }

    /// The largest body that is taken on a channel.
    private func maximumMessageSize(of channel: Channel) -> Int {
        guard case .consumer(let consumer) = channel.owner else { return configuration.maximumMessageSize }
        return consumer.options.maximumMessageSize ?? configuration.maximumMessageSize
    }

    private func deliver(_ content: consuming FrameAssembler.Content, to channel: Channel) throws(AMQPError) {
        switch (content.origin, channel.owner) {
        case (.delivery(let tag, let isRedelivered, let address), .consumer(let consumer)):
            if content.skippedSize == nil {
                try consumer.buffer.add(content.message, tag: tag, isRedelivered: isRedelivered, address)
            } else {
                try consumer.buffer.refuse(tag: tag)
            }
        case (.returned(let code, let text, let address), .publisher(let publisher)):
            publisher.returned(code: code, text: text, address, content.message, skippedSize: content.skippedSize)
        default: break
        }
    }

    private func answered(
        _ tag: UInt64, _ isMultiple: Bool, isNack: Bool, on channel: Channel?
    ) throws(AMQPError) {
        guard let channel, case .publisher(let publisher) = channel.owner, publisher.channel === channel else { return }
        try publisher.confirms.answered(tag: tag, isMultiple: isMultiple, isNack: isNack) { publisher.resolve($0, $1) }
    }

    /// Notices a peer that has vanished. Gives when that will be looked at next.
    private func checkHeartbeat(at now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
        guard let session else { return nil }
        let heartbeat = session.handle.heartbeat
        guard heartbeat > .zero else { return session.nextService }
        let end = session.lastReceived + heartbeat * 2
        guard end > now else {
            drop(AMQPError(.connectionLost, "no sign of life from the broker for \(heartbeat * 2), two heartbeats"))
            return nil
        }
        return min(end, session.nextService)
    }

    // MARK: Settling

    private func settleAll(at now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
        var next: ContinuousClock.Instant?
        for consumer in consumers.values {
            guard let deadline = settle(consumer, at: now) else { continue }
            next = min(next ?? deadline, deadline)
        }
        return next
    }

    /// Sends the settlements that are due. Gives when the next ones will be.
    @discardableResult
    func settle(_ consumer: ConsumerState, at now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
        guard let channel = consumer.channel else { return nil }
        let (actions, deadline) = consumer.buffer.takeActions(at: now)
        for action in actions {
            switch action {
            case .ack(let tag, let isMultiple): send(.ack(tag: tag, isMultiple: isMultiple), on: channel)
            case .reject(let tag, let requeue): send(.reject(tag: tag, requeue: requeue), on: channel)
            }
        }
        return deadline
    }

    /// Ends a consumer.
    func closeConsumer(_ id: Int) {
        guard let consumer = consumers.removeValue(forKey: id) else { return }
        settle(consumer, at: .now + .seconds(60))
        if let channel = consumer.channel { closeChannel(channel) }
        consumer.end(nil)
    }
}
