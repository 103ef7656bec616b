/// A channel of one connection, on the connection's thread.
final class Channel {
    /// Whom its frames are for.
    enum Owner {
        /// Requests alone.
        case requests
        case publisher(PublisherState)
        case consumer(ConsumerState)
    }

    /// A request that waits for its reply.
    struct Pending {
        let request: Request
        let deadline: ContinuousClock.Instant
        let continuation: CheckedContinuation<Result<Reply, AMQPError>, Never>
    }

    let number: UInt16
    var owner = Owner.requests
    var assembler = FrameAssembler()
    /// At most one: whoever uses a channel sends one request after the other.
    var pending: Pending?
    /// True where a reply was given up: when it comes after all, the channel is closed.
    var isAbandoned = false
    /// True where the broker was asked to close it: the reply frees the number.
    var isClosing = false

    init(number: UInt16) { self.number = number }

    /// Lets whoever waits for a reply go.
    func finish(_ result: Result<Reply, AMQPError>) {
        let continuation = pending?.continuation
        pending = nil
        continuation?.resume(returning: result)
    }
}

/// One life of the connection: from login to loss.
final class Session {
    let handle: ConnectionHandle
    /// Channel 0, for the connection itself.
    let control = Channel(number: 0)
    var channels: [UInt16: Channel] = [:]
    /// When the broker was last heard.
    var lastReceived: ContinuousClock.Instant
    /// When the thread last listened.
    private var lastListened: ContinuousClock.Instant
    /// When the library is to look after heartbeats at the latest.
    var nextService: ContinuousClock.Instant
    /// Why the broker takes no messages; nil where it does.
    var blockedReason: String?
    /// When it last began to take them.
    var takingSince: ContinuousClock.Instant

    init(_ handle: ConnectionHandle, at now: ContinuousClock.Instant) {
        self.handle = handle
        lastReceived = now
        lastListened = now
        nextService = now
        takingSince = now
    }

    /// The thread listens again. Where it wrote for longer than a heartbeat, the broker may have been heard meanwhile, by the
    /// library, which does not tell: it has one more heartbeat's time.
    func listened(at now: ContinuousClock.Instant) {
        let heartbeat = handle.heartbeat
        if heartbeat > .zero, now - lastListened > heartbeat { lastReceived = max(lastReceived, now - heartbeat) }
        lastListened = now
    }

    /// A channel with a number that is free. Nil where all are taken.
    func makeChannel(_ owner: Channel.Owner) -> Channel? {
        guard let number = (1...handle.channelLimit).first(where: { channels[$0] == nil }) else { return nil }
        let channel = Channel(number: number)
        channel.owner = owner
        channels[number] = channel
        return channel
    }

    /// The channels on which somebody waits for a reply: hardly ever one.
    var channelsThatWait: [Channel] {
        var waiting = channels.values.filter { $0.pending != nil }
        if control.pending != nil { waiting.append(control) }
        return waiting
    }

    subscript(number: UInt16) -> Channel? { number == 0 ? control : channels[number] }
}
