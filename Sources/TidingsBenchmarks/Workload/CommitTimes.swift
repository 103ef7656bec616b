import CTidingsRabbitMQ
import Glibc
import Synchronization
import TidingsSQLite

/// When each of a number of commits began, told by the thread that commits to the one that follows.
final class CommitTimes: Sendable {
    /// Readable where the follower waits and there is something behind what it knows.
    let event: Int32
    private let times: Mutex<[UInt64]>
    private let count = Atomic(0)
    private let hasFailed = Atomic(false)
    private let isAwaited = Atomic(false)

    init(count: Int) throws {
        event = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        times = Mutex([UInt64](repeating: 0, count: count + 1))
        guard event >= 0 else { throw BenchmarkError("no eventfd: \(String(cString: strerror(errno)))") }
    }

    deinit { if event >= 0 { close(event) } }

    // MARK: By the one that commits

    /// The next commit begins.
    func begin() {
        let now = MonotonicClock.nanoseconds
        let number = count.load(ordering: .relaxed) + 1
        times.withLock { $0[number] = now }
    }

    /// It is done.
    func end() {
        count.add(1, ordering: .sequentiallyConsistent)
        wake()
    }

    /// There will be no more.
    func fail() {
        hasFailed.store(true, ordering: .sequentiallyConsistent)
        wake()
    }

    private func wake() {
        guard isAwaited.exchange(false, ordering: .sequentiallyConsistent) else { return }
        eventfd_write(event, 1)
    }

    // MARK: By the one that follows

    /// How many are committed. Throws where one failed.
    func ready() throws -> Int {
        guard !hasFailed.load(ordering: .acquiring) else { throw BenchmarkError("a commit failed") }
        return count.load(ordering: .acquiring)
    }

    /// True where nothing is committed behind a number; then ``event`` tells when there is.
    func mustWait(behind number: Int) throws -> Bool {
        var value: eventfd_t = 0
        eventfd_read(event, &value)
        isAwaited.store(true, ordering: .sequentiallyConsistent)
        return try ready() <= number
    }

    /// When a commit began, by its number from 1.
    subscript(number: Int) -> UInt64 { times.withLock { $0[number] } }
}
