internal import Glibc
internal import HistoryMessaging
internal import Synchronization
internal import TidingsAMQP

/// Where the handler writes the signals' numbers; -1 where nobody waits for any.
private let signalPipe = Atomic<Int32>(-1)
/// How many handlers run now.
private let runningHandlers = Atomic<Int>(0)

/// Takes signals for a while, in place of whoever took them before.
///
/// The handler does what one may do: it writes a byte into a pipe, which a thread reads.
/// [signal-safety(7)](https://man7.org/linux/man-pages/man7/signal-safety.7.html)
final class SignalWatch: Sendable {
    /// The signals as they come. Ends with ``stop()``.
    let signals: AsyncStream<ServiceSignal>

    private let thread: SystemThread
    private let reading: Int32
    private let writing: Int32
    /// Who took the signals before, to be put back in reverse order; nil once that is done.
    private let former: Locked<[(number: Int32, action: sigaction)]?>

    /// Begins to take signals.
    ///
    /// Throws ``MessagingError``: `alreadyRunning` where this process takes some already, `invalid` where one of these
    /// cannot be taken.
    init(_ signals: [ServiceSignal]) throws {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else {
            throw MessagingError(.invalid, "no pipe for signals: raise the limit of open files")
        }
        (reading, writing) = (ends[0], ends[1])
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        // The handler must not block.
        _ = fcntl(writing, F_SETFL, O_NONBLOCK)
        // Nor be the first to reach a global value, which is made then.
        _ = runningHandlers.load(ordering: .relaxed)
        guard signalPipe.compareExchange(expected: -1, desired: writing, ordering: .sequentiallyConsistent).exchanged
        else {
            close(ends[0])
            close(ends[1])
            throw MessagingError(
                .alreadyRunning, "this process waits for signals already: put the services in one group")
        }
        let (stream, continuation) = AsyncStream.makeStream(
            of: ServiceSignal.self, bufferingPolicy: .bufferingOldest(8))
        self.signals = stream
        former = Locked([])
        do {
            thread = try SystemThread("signals") { [reading] in Self.forward(reading, to: continuation) }
        } catch {
            signalPipe.store(-1, ordering: .sequentiallyConsistent)
            close(ends[0])
            close(ends[1])
            throw error
        }
        for signal in signals where !take(signal) {
            stop()
            throw MessagingError(.invalid, "\(signal) cannot be waited for")
        }
    }

    /// Lets whoever took the signals before take them again, and ends ``signals``. Harmless a second time.
    func stop() {
        let former = former.withLock { former in
            defer { former = nil }
            return former
        }
        guard let former else { return }
        for (number, action) in former.reversed() {
            var action = action
            sigaction(number, &action, nil)
        }
        signalPipe.store(-1, ordering: .sequentiallyConsistent)
        // One that runs now may have the pipe in its hand.
        while runningHandlers.load(ordering: .sequentiallyConsistent) > 0 { sched_yield() }
        var end: UInt8 = 0
        while Glibc.write(writing, &end, 1) < 0, errno == EINTR || errno == EAGAIN { sched_yield() }
        thread.join()
        close(reading)
        close(writing)
    }

    private func take(_ signal: ServiceSignal) -> Bool {
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { number in
            let code = errno
            runningHandlers.add(1, ordering: .sequentiallyConsistent)
            let pipe = signalPipe.load(ordering: .sequentiallyConsistent)
            var byte = UInt8(truncatingIfNeeded: number)
            // A pipe that is full holds more signals than anybody will count.
            if pipe >= 0 { _ = Glibc.write(pipe, &byte, 1) }
            runningHandlers.subtract(1, ordering: .sequentiallyConsistent)
            errno = code
        }
        action.sa_flags = SA_RESTART
        var old = sigaction()
        guard sigaction(signal.number, &action, &old) == 0 else { return false }
        let before = old
        former.withLock { $0?.append((signal.number, before)) }
        return true
    }

    /// Runs on the thread until it reads the end.
    private static func forward(_ reading: Int32, to signals: AsyncStream<ServiceSignal>.Continuation) {
        var byte: UInt8 = 0
        while true {
            let count = Glibc.read(reading, &byte, 1)
            if count < 0, errno == EINTR { continue }
            guard count == 1, byte != 0 else { break }
            signals.yield(ServiceSignal(number: Int32(byte)))
        }
        signals.finish()
    }
}
