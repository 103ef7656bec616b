extension AMQPConnection {
    /// After how many messages the broker's answers are looked at, in the middle of writing.
    private static let messagesPerDrain = 64

    /// How many messages are written in one turn, so that jobs and other publishers are not kept waiting.
    private static let messagesPerTurn = 1024

    /// Writes a batch as the window allows, and waits for the answers.
    func publish(
        _ publications: [AMQPPublication], batch identity: PublishBatch.Identity, publisher id: Int,
        didEnqueue: @Sendable () -> Void
    ) async throws -> [PublishResult] {
        try Task.checkCancellation()
        return try await withCheckedThrowingContinuation { continuation in
            guard let publisher = publishers[id], !isClosing else {
                let error = AMQPError(.closed, "the publisher, or its connection, is closed")
                return continuation.resume(throwing: error)
            }
            publisher.waiting.append(PublishBatch(publications, identity: identity, continuation: continuation))
            didEnqueue()
            if publisher.channel == nil {
                needsChannels = true
                signal()
            }
            pump(publisher)
        }
    }

    func counts(publisher id: Int) -> PublishCounts {
        guard let publisher = publishers[id] else { return PublishCounts() }
        var counts = publisher.counts
        counts.unanswered = publisher.confirms.count
        for index in 0..<publisher.waiting.count {
            counts.waiting += publisher.waiting[index].publications.count - publisher.waiting[index].next
        }
        return counts
    }

    func closePublisher(_ id: Int) {
        guard let publisher = publishers.removeValue(forKey: id) else { return }
        if let channel = publisher.channel { closeChannel(channel) }
        publisher.close(AMQPError(.closed, "the publisher was closed"))
    }

    /// Writes for all publishers. Gives when the answers that are awaited would be late.
    @discardableResult
    func pumpAll(at now: ContinuousClock.Instant = .now) -> ContinuousClock.Instant? {
        var next: ContinuousClock.Instant?
        for publisher in publishers.values {
            renewRefused(publisher, at: now)
            // There is more to write: the next turn comes at once.
            if pump(publisher) { next = now }
            guard let deadline = checkConfirms(publisher, at: now) else { continue }
            next = min(next ?? deadline, deadline)
        }
        // Answers that one of them read may have made room for another.
        let hasMore = session?.blockedReason == nil && publishers.values.contains(where: \.canWrite)
        return hasMore ? now : next
    }

    /// Writes what waits, as far as the window, the broker and the turn allow. True where the turn alone ended it.
    @discardableResult
    func pump(_ publisher: PublisherState) -> Bool {
        guard let session, !publisher.waiting.isEmpty else { return false }
        var now = ContinuousClock.now
        var written = 0
        // Looked at anew for each message: reading the answers may block, close or lose anything.
        while let channel = publisher.channel, session === self.session, session.blockedReason == nil,
            let batch = publisher.waiting.first
        {
            guard publisher.canWrite else { return false }
            guard written < Self.messagesPerTurn else { return true }
            written += 1
            if written % Self.messagesPerDrain == 1 {
                now = .now
                session.handle.guarded.set(deadline: now + configuration.sendTimeout)
                // At first only where it is due: the library's publish must not find a heartbeat overdue.
                if written > 1 || now >= session.nextService {
                    drain(session, at: now)
                    continue
                }
            }
            guard writeNext(of: batch, publisher, channel, session, at: now) else { return false }
        }
        return false
    }

    private func writeNext(
        of batch: PublishBatch, _ publisher: PublisherState, _ channel: Channel, _ session: Session,
        at now: ContinuousClock.Instant
    ) -> Bool {
        let slot = PublishSlot(batch: batch, index: batch.next)
        let size = batch.publications[slot.index].message.body.count
        if session.handle.frameSize < 131_072, let error = refusal(of: batch.publications[slot.index], by: session) {
            finishWriting(batch, publisher)
            publisher.resolve(slot, .unknown(error))
            return true
        }
        if size > 1 << 20 {
            session.handle.guarded.set(deadline: now + configuration.sendTimeout * (1 + size >> 20))
        }
        publisher.confirms.written(slot, size: size, at: now)
        finishWriting(batch, publisher)
        do throws(AMQPError) {
            try session.handle.publish(batch.publications[slot.index], channel: channel.number)
            return true
        } catch {
            // A part of it may have been written, and perhaps taken: unknown, as all that is unanswered.
            drop(error)
            return false
        }
    }

    private func finishWriting(_ batch: PublishBatch, _ publisher: PublisherState) {
        batch.next += 1
        if batch.next == batch.publications.count { _ = publisher.waiting.removeFirst() }
    }

    /// Why a broker that agrees on smaller frames than usual cannot take a message.
    private func refusal(of publication: AMQPPublication, by session: Session) -> AMQPError? {
        do throws(AMQPError) {
            try MessageLimits(frameSize: session.handle.frameSize).check(publication.message, to: publication.address)
            return nil
        } catch {
            return error
        }
    }

    /// Opens the channel anew where it has answered with nothing but nacks for a second.
    ///
    /// A channel that first published to a quorum queue while its leader was down keeps asking the dead node
    /// (RabbitMQ 3.10), and refuses everything for ever; a new one finds the new leader.
    private func renewRefused(_ publisher: PublisherState, at now: ContinuousClock.Instant) {
        guard let since = publisher.refusedSince, now - since > .seconds(1), publisher.confirms.count == 0,
            let channel = publisher.channel
        else { return }
        closeChannel(channel)
        publisher.lose(AMQPError(.closedByBroker, "the broker refuses everything on this channel"))
        needsChannels = true
        signal()
    }

    /// Gives up a channel whose answers are late. Gives when they would be.
    private func checkConfirms(_ publisher: PublisherState, at now: ContinuousClock.Instant) -> ContinuousClock.Instant?
    {
        guard let session, session.blockedReason == nil, let oldest = publisher.confirms.oldest,
            let channel = publisher.channel
        else { return nil }
        let deadline = max(oldest, session.takingSince) + configuration.confirmTimeout
        guard deadline <= now else { return deadline }
        closeChannel(channel)
        publisher.lose(
            AMQPError(.timedOut, "the broker has not answered a publication for \(configuration.confirmTimeout)"))
        needsChannels = true
        signal()
        return nil
    }
}
