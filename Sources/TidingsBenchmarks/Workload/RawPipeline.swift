import CTidingsRabbitMQ
import Glibc
import TidingsSQLite

/// The floor of the pipeline by C functions: commit, sync, publish, deliver, make the token durable, acknowledge.
///
/// One thread publishes and receives, as in ``RawRoundTrip``; what a program in C does besides, it would have to do too.
final class RawPipeline {
    /// Microseconds between commits that go one by one: so long, everything rests.
    static let pause: UInt32 = 2000
    private let run: BrokerRun
    private let publisher: RawPublisher
    private let consumer: RawConsumer
    private let log: RawLog
    private let token: RawTokenFile

    /// - Parameter database: a file that is open and written to, and so has a log.
    init(_ endpoint: BrokerEndpoint, _ run: BrokerRun, database: String) throws {
        self.run = run
        log = try RawLog(of: database)
        token = try RawTokenFile(database + "-token")
        publisher = try RawPublisher(endpoint, run)
        consumer = try RawConsumer(endpoint, run, prefetch: run.roundTripPrefetch)
        consumer.acknowledgesItself = false
        try consumer.subscribe()
    }

    /// One commit after the other, each merged before the next; latencies from the commit's beginning to the token.
    func oneByOne(_ commit: () throws -> Void) throws -> [UInt64] {
        var latencies: [UInt64] = []
        latencies.reserveCapacity(run.count)
        for number in 1...run.count {
            let start = MonotonicClock.nanoseconds
            try commit()
            try log.sync()
            try publisher.publish()
            while consumer.count < number { try takeInput() }
            try token.write(number)
            latencies.append(MonotonicClock.nanoseconds - start)
            try consumer.acknowledge()
            // Behind the measured time, as nobody waits for it.
            while publisher.confirms.pendingCount > 0 { try publisher.takeConfirms(seconds: 30) }
            usleep(Self.pause)
        }
        return latencies
    }

    /// What somebody else commits, as fast as it comes; latencies from each commit's beginning to the token behind it.
    func follow(_ commits: CommitTimes) throws -> [UInt64] {
        var latencies: [UInt64] = []
        latencies.reserveCapacity(run.count)
        while latencies.count < run.count {
            let ready = try commits.ready()
            let room = min(ready - publisher.confirms.sentCount, run.window - publisher.confirms.pendingCount)
            if room > 0 {
                // All of a batch are made durable by one sync.
                try log.sync()
                for _ in 0..<room { try publisher.publish() }
            }
            let hasRoom = publisher.confirms.pendingCount < run.window && publisher.confirms.sentCount < run.count
            try takeInput(hasRoom ? commits : nil, behind: publisher.confirms.sentCount)
            guard consumer.count > latencies.count else { continue }
            try token.write(consumer.count)
            let now = MonotonicClock.nanoseconds
            for number in latencies.count + 1...consumer.count { latencies.append(now - commits[number]) }
            try consumer.acknowledge()
        }
        while publisher.confirms.pendingCount > 0 { try publisher.takeConfirms(seconds: 30) }
        return latencies
    }

    /// Takes what has come on both connections; waits for that, or for a commit behind those that are published.
    private func takeInput(_ commits: CommitTimes? = nil, behind published: Int = 0) throws {
        var input = (publisher.connection.hasInput, consumer.connection.hasInput)
        if !input.0, !input.1 {
            // A commit that came meanwhile is found at once, and none is missed.
            let mustWait = try commits.map { try $0.mustWait(behind: published) } ?? true
            input = try wait(commits?.event, timeout: mustWait ? 30_000 : 0)
        }
        if input.0 { try publisher.takeConfirms(seconds: 0) }
        guard input.1 else { return }
        repeat { _ = try consumer.receive(seconds: 0) } while consumer.connection.hasInput
    }

    private func wait(_ event: Int32?, timeout: Int32) throws -> (publisher: Bool, consumer: Bool) {
        var descriptors = (
            pollfd(fd: amqp_get_sockfd(publisher.connection.state), events: Int16(POLLIN), revents: 0),
            pollfd(fd: amqp_get_sockfd(consumer.connection.state), events: Int16(POLLIN), revents: 0),
            pollfd(fd: event ?? -1, events: Int16(POLLIN), revents: 0)
        )
        let count = withUnsafeMutableBytes(of: &descriptors) { bytes in
            poll(bytes.bindMemory(to: pollfd.self).baseAddress, 3, timeout)
        }
        guard count > 0 || timeout == 0 else { throw BenchmarkError("neither confirm nor delivery within 30 s") }
        return (descriptors.0.revents != 0, descriptors.1.revents != 0)
    }
}
