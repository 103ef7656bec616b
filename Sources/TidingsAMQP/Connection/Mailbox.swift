/// What other threads want of the connection's thread, besides its jobs.
final class Mailbox: Sendable {
    struct Mail: Sendable {
        var batches: [PublishBatch.Identity] = []
        var consumers: [Int] = []
        /// Until when the connection shall be closed; nil is not at all.
        var closeDeadline: ContinuousClock.Instant?
        var socket: GuardedSocket?
    }

    private let mail = Locked(Mail())
    private let thread: ConnectionThread

    init(thread: ConnectionThread) { self.thread = thread }

    /// When the connection shall be closed at the latest.
    var closeDeadline: ContinuousClock.Instant? { mail.withLock { $0.closeDeadline } }

    /// Has the thread take a turn.
    func wake() { thread.wake() }

    /// Asks to give up a call to publish.
    func cancel(_ batch: PublishBatch.Identity) {
        mail.withLock { $0.batches.append(batch) }
        wake()
    }

    /// Asks to give up a call to consume.
    func cancel(consumer id: Int) {
        mail.withLock { $0.consumers.append(id) }
        wake()
    }

    /// The calls to give up.
    func takeCancelled() -> (batches: [PublishBatch.Identity], consumers: [Int]) {
        mail.withLock { mail in
            guard !mail.batches.isEmpty || !mail.consumers.isEmpty else { return ([], []) }
            defer {
                mail.batches = []
                mail.consumers = []
            }
            return (mail.batches, mail.consumers)
        }
    }

    /// Asks to close the connection; an earlier deadline stands.
    func close(before deadline: ContinuousClock.Instant) {
        let (socket, limit) = mail.withLock { mail in
            let limit = mail.closeDeadline.map { min($0, deadline) } ?? deadline
            mail.closeDeadline = limit
            return (mail.socket, limit)
        }
        // Where the thread is in the middle of a call, this ends it when the time comes.
        socket?.set(limit: limit)
        wake()
    }

    /// Tells of the socket that is in use now.
    func use(_ socket: GuardedSocket?) {
        let deadline = mail.withLock { mail in
            mail.socket = socket
            return mail.closeDeadline
        }
        if let deadline { socket?.set(limit: deadline) }
    }
}
