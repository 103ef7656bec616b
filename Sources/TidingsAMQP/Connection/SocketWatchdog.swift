internal import CTidingsRabbitMQ
internal import Glibc

/// A thread for the whole process that shuts down sockets on which a call has blocked past its bound.
///
/// The library's publish may block for ever, heartbeats or not; shutting the socket down from another thread ends it.
/// The thread runs as long as anybody holds the watchdog.
final class SocketWatchdog: Sendable {
    /// How often deadlines are looked at: a bound is kept to within this.
    static let period: Duration = .milliseconds(250)

    private static let current = Locked(WeakWatchdog())

    private let guarded: GuardedSockets
    private let thread: SystemThread

    /// The process's watchdog, made where there is none. Throws `resources` where the system has no thread for it.
    static func shared() throws(AMQPError) -> SocketWatchdog {
        try current.withLock { current throws(AMQPError) in
            if let watchdog = current.value { return watchdog }
            let watchdog = try SocketWatchdog()
            current.value = watchdog
            return watchdog
        }
    }

    private init() throws(AMQPError) {
        let guarded = try GuardedSockets()
        thread = try SystemThread("amqp-watchdog") { guarded.run() }
        self.guarded = guarded
    }

    deinit {
        guarded.stop()
        thread.join()
    }

    /// Takes a socket into its care, for one owner.
    func guardSocket(_ descriptor: Int32) -> GuardedSocket { GuardedSocket(descriptor, watchdog: self, in: guarded) }
}

private struct WeakWatchdog: Sendable {
    weak var value: SocketWatchdog?
}

/// A socket in the watchdog's care, until it goes. It must go before the descriptor is closed.
final class GuardedSocket: Sendable {
    private let deadline = Locked<Deadline>(Deadline())
    private let descriptor: Int32
    private let watchdog: SocketWatchdog
    private let sockets: GuardedSockets

    private struct Deadline {
        /// When the present call must have returned.
        var instant: ContinuousClock.Instant?
        /// When the connection must be gone.
        var limit: ContinuousClock.Instant?
        var hasEnded = false
        var hasBarked = false
    }

    fileprivate init(_ descriptor: Int32, watchdog: SocketWatchdog, in sockets: GuardedSockets) {
        self.descriptor = descriptor
        self.watchdog = watchdog
        self.sockets = sockets
        sockets.add(self)
    }

    /// Sets until when the owner's next calls must have returned; nil is no bound.
    func set(deadline instant: ContinuousClock.Instant?) { deadline.withLock { $0.instant = instant } }

    /// Sets until when the connection must be gone, whatever it does.
    func set(limit instant: ContinuousClock.Instant) { deadline.withLock { $0.limit = instant } }

    /// True where the socket was shut down because a deadline had passed.
    var hasBarked: Bool { deadline.withLock { $0.hasBarked } }

    /// Takes the socket out of care: when this returns, nothing touches the descriptor any more.
    func end() {
        deadline.withLock { $0.hasEnded = true }
        sockets.remove(self)
    }

    fileprivate func check(_ now: ContinuousClock.Instant) {
        // The descriptor cannot be closed meanwhile: `end()` takes the same lock.
        deadline.withLock { state in
            guard !state.hasEnded, !state.hasBarked else { return }
            guard let instant = [state.instant, state.limit].compactMap(\.self).min(), instant <= now else { return }
            state.hasBarked = true
            shutdown(descriptor, Int32(SHUT_RDWR))
        }
    }
}

/// The sockets in care, and what the thread does for them.
private final class GuardedSockets: Sendable {
    private struct State {
        var sockets: [GuardedSocket] = []
        var isStopping = false
    }

    private let state = Locked(State())
    private let wakeDescriptor: Int32

    init() throws(AMQPError) {
        wakeDescriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        guard wakeDescriptor >= 0 else {
            throw AMQPError(.resources, "no descriptor for the watchdog of broker connections: raise the limit")
        }
    }

    deinit { close(wakeDescriptor) }

    func add(_ socket: GuardedSocket) {
        state.withLock { $0.sockets.append(socket) }
        signal()
    }

    func remove(_ socket: GuardedSocket) { state.withLock { $0.sockets.removeAll { $0 === socket } } }

    func stop() {
        state.withLock { $0.isStopping = true }
        signal()
    }

    private func signal() {
        var one: UInt64 = 1
        _ = unsafe write(wakeDescriptor, &one, 8)
    }

    func run() {
        let milliseconds = Int32(SocketWatchdog.period / .milliseconds(1))
        while true {
            let (sockets, isStopping) = state.withLock { ($0.sockets, $0.isStopping) }
            if isStopping { return }
            let now = ContinuousClock.now
            for socket in sockets { socket.check(now) }
            var descriptors = [pollfd(fd: wakeDescriptor, events: Int16(POLLIN), revents: 0)]
            // Without sockets there is nothing to look at until one comes.
            if unsafe poll(&descriptors, 1, sockets.isEmpty ? -1 : milliseconds) > 0 {
                var value: UInt64 = 0
                _ = unsafe read(wakeDescriptor, &value, 8)
            }
        }
    }
}
