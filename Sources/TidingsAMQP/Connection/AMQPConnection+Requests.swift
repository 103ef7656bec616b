extension AMQPConnection {
    /// Sends a request and waits for the reply.
    ///
    /// Throws why the broker refused, why the connection was lost, or `timedOut`: a broker that does not answer, and is
    /// not blocked, counts as lost.
    func call(
        _ request: Request, on channel: Channel, before deadline: ContinuousClock.Instant? = nil
    ) async throws(AMQPError) -> Reply {
        guard let session, session[channel.number] === channel, !channel.isClosing else {
            throw lostChannel(request)
        }
        do throws(AMQPError) {
            session.handle.guarded.set(deadline: .now + configuration.sendTimeout)
            try session.handle.send(request, channel: channel.number)
        } catch {
            drop(error)
            throw error
        }
        let deadline = deadline ?? .now + configuration.replyTimeout
        let result = await withCheckedContinuation { continuation in
            channel.pending = Channel.Pending(request: request, deadline: deadline, continuation: continuation)
        }
        let reply = try result.get()
        // The reply and the end may come together: then the number is nobody's, or another channel's.
        guard self.session === session, session[channel.number] === channel, !channel.isClosing else {
            throw lostChannel(request)
        }
        return reply
    }

    /// Why there is no channel for a request.
    func lostChannel(_ request: Request) -> AMQPError {
        // Where the channel alone was lost, `closed` would say that there will be no other.
        loss ?? AMQPError(isClosing ? .closed : .connectionLost, "\(request.name): the channel is closed")
    }

    /// Sends a method that has no reply, or none that anybody waits for.
    func send(_ request: Request, on channel: Channel) {
        guard let session else { return }
        do throws(AMQPError) {
            try session.handle.send(request, channel: channel.number)
        } catch {
            drop(error)
        }
    }

    /// The broker has answered.
    func replied(_ number: UInt16, _ reply: Reply) throws(AMQPError) {
        guard let session, let channel = session[number] else { return }
        if let pending = channel.pending, pending.request.isAnswered(by: reply) {
            channel.finish(.success(reply))
        } else if channel.isClosing, reply == .channelClosed {
            // Only now is the number free: whatever was on the way for the old channel has come.
            session.channels[number] = nil
            channel.finish(.failure(AMQPError(isClosing ? .closed : .connectionLost, "the channel was closed")))
        } else if channel.isAbandoned {
            closeChannel(channel)
        } else if !channel.isClosing {
            throw AMQPError(.protocolViolation, "the broker sent a reply that nobody waits for: \(reply)")
        }
    }

    /// Lets go whoever waits for a reply that is late. Gives when the next one will be.
    func checkReplies(_ session: Session, at now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
        var next: ContinuousClock.Instant?
        for channel in session.channelsThatWait {
            guard let pending = channel.pending else { continue }
            // When an alarm is over the broker has its time anew, but for saying goodbye.
            let hasOwnTime = session.blockedReason != nil || channel === session.control
            let anew = session.takingSince + configuration.replyTimeout
            let deadline = hasOwnTime ? pending.deadline : max(pending.deadline, anew)
            guard deadline <= now else {
                next = min(next ?? deadline, deadline)
                continue
            }
            if let reason = session.blockedReason {
                channel.isAbandoned = true
                channel.finish(
                    .failure(
                        AMQPError(.timedOut, "\(pending.request.name): the broker is blocked by an alarm (\(reason))")))
            } else {
                drop(AMQPError(.timedOut, "\(pending.request.name): the broker did not answer in time"))
                return nil
            }
        }
        return next
    }
}
