extension AMQPConnection {
    /// Sends a request and waits for the reply.
    ///
    /// Throws why the broker refused, why the connection was lost, or `timedOut`: a broker that does not answer, and is
    /// not blocked, counts as lost.
    func call(
        _ request: Request, on channel: Channel, before deadline: ContinuousClock.Instant? = nil
    ) async throws(AMQPError) -> Reply {
        let deadline = deadline ?? .now + configuration.replyTimeout
        // Sent when the continuation is there: where a task prefers an executor, to wait is a step of its own, and the reply, or
        // the end, may come before it.
        let result = await withCheckedContinuation {
            (continuation: CheckedContinuation<Result<Reply, AMQPError>, Never>) in
            guard let session, isUsable(channel) else {
                return continuation.resume(returning: .failure(lostChannel(request)))
            }
            channel.pending = Channel.Pending(request: request, deadline: deadline, continuation: continuation)
            session.handle.guarded.set(deadline: .now + configuration.sendTimeout)
            send(request, on: channel)
        }
        let reply = try result.get()
        // The reply and the end may come together: then the number is nobody's, or another channel's.
        guard isUsable(channel) else { throw lostChannel(request) }
        return reply
    }

    /// True where a channel is one of the present connection's, and not being closed. True until the next await at most.
    func isUsable(_ channel: Channel) -> Bool { session?[channel.number] === channel && !channel.isClosing }

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
