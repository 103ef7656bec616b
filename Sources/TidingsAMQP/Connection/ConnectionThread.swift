internal import CTidingsRabbitMQ
internal import Glibc

/// What the thread is to wait for, besides jobs.
struct PollRequest: Sendable {
    /// The socket; -1 is none.
    var descriptor: Int32
    /// How long to wait at most, in milliseconds; -1 is without end.
    var timeout: Int32

    static let idle = PollRequest(descriptor: -1, timeout: -1)
}

/// A serial executor over one thread, which between jobs polls one socket.
///
/// The thread runs the jobs that wait, then the turn, then waits until the socket can be read, a job comes, or the time
/// that the turn named is over.
final class ConnectionThread: SerialExecutor {
    private let state: ThreadState
    private let thread: SystemThread

    /// Starts the thread. Throws `resources` where the system has no thread or descriptor for it.
    init(name: String) throws(AMQPError) {
        let state = try ThreadState()
        thread = try SystemThread(name) { state.run() }
        self.state = state
    }

    deinit {
        state.stop()
        thread.join()
    }

    /// Sets what is done between jobs, on the thread; it is told whether the socket can be read. To be called once.
    func attach(turn: @escaping @Sendable (_ readable: Bool) -> PollRequest) { state.attach(turn) }

    /// Has the thread take a turn soon. From any thread.
    func wake() { state.wake() }

    func enqueue(_ job: consuming ExecutorJob) {
        unsafe state.enqueue(UnownedJob(job), for: asUnownedSerialExecutor())
    }

    /// Stops the process where the caller is not on the thread.
    func checkIsolated() { precondition(thread.isCurrent, "not on the connection's thread") }
}

/// The queue, and the descriptor that wakes the thread.
private final class ThreadState: Sendable {
    @safe fileprivate struct Work {
        var jobs: [(UnownedJob, UnownedSerialExecutor)] = unsafe []
        var turn: (@Sendable (Bool) -> PollRequest)?
        var isWaiting = false
        var isAwake = true
        var isStopping = false
    }

    private let work = Locked(Work())
    private let wakeDescriptor: Int32

    init() throws(AMQPError) {
        wakeDescriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        guard wakeDescriptor >= 0 else {
            throw AMQPError(
                .resources, "no descriptor for a broker connection (error \(errno)): raise the limit of open files")
        }
    }

    deinit { close(wakeDescriptor) }

    func attach(_ turn: @escaping @Sendable (Bool) -> PollRequest) { work.withLock { $0.turn = turn } }

    func enqueue(_ job: UnownedJob, for executor: UnownedSerialExecutor) {
        let mustWake = work.withLock { work in
            unsafe work.jobs.append((job, executor))
            return work.takeWaiting()
        }
        if mustWake { signal() }
    }

    func wake() {
        let mustWake = work.withLock { work in
            work.isAwake = true
            return work.takeWaiting()
        }
        if mustWake { signal() }
    }

    /// Lets the thread finish its queue and end.
    func stop() {
        work.withLock { $0.isStopping = true }
        signal()
    }

    private func signal() {
        var one: UInt64 = 1
        // Fails only where the counter is full, and then the thread wakes just as well.
        _ = unsafe write(wakeDescriptor, &one, 8)
    }

    /// What the thread does, until it is stopped.
    func run() {
        var readable = false
        while let (jobs, turn) = unsafe next() {
            for unsafe(job, executor) in unsafe jobs { unsafe job.runSynchronously(on: executor) }
            readable = wait(for: turn?(readable) ?? .idle)
        }
    }

    /// The jobs that wait and the turn; nil at the end.
    private func next() -> ([(UnownedJob, UnownedSerialExecutor)], (@Sendable (Bool) -> PollRequest)?)? {
        unsafe work.withLock { work in
            guard unsafe !work.isStopping || !work.jobs.isEmpty else { return nil }
            let jobs = unsafe work.jobs
            unsafe work.jobs.removeAll()
            work.isAwake = false
            return unsafe (jobs, work.turn)
        }
    }

    /// Waits. True where the socket can be read, or has failed.
    private func wait(for request: PollRequest) -> Bool {
        let mustWait = work.withLock { work in
            work.isWaiting = unsafe work.jobs.isEmpty && !work.isAwake && !work.isStopping
            return work.isWaiting
        }
        var descriptors: [2 of pollfd] = [
            pollfd(fd: wakeDescriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: request.descriptor, events: Int16(POLLIN), revents: 0),
        ]
        var span = descriptors.mutableSpan
        let count = unsafe span.withUnsafeMutableBufferPointer { descriptors in
            unsafe poll(descriptors.baseAddress, 2, mustWait ? request.timeout : 0)
        }
        if mustWait { work.withLock { $0.isWaiting = false } }
        guard count > 0 else { return false }
        if descriptors[0].revents != 0 {
            var value: UInt64 = 0
            _ = unsafe read(wakeDescriptor, &value, 8)
        }
        return descriptors[1].revents != 0
    }
}

extension ThreadState.Work {
    /// True where the thread must be signalled: it waits, and nobody has signalled it yet.
    fileprivate mutating func takeWaiting() -> Bool {
        defer { isWaiting = false }
        return isWaiting
    }
}
