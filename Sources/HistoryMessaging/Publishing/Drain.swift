internal import PersistentHistory
internal import TidingsAMQP

/// How long a service that was told to stop waits for the broker to confirm what is on its way.
struct Drain: Sendable {
    /// The bound has passed while something is still on its way.
    struct Over: Error {}

    /// Until when it waits; nil before it was told to stop.
    private(set) var deadline: ContinuousClock.Instant?

    /// Throws ``Over`` where it is to stop, and waiting is of no use or has taken its time.
    mutating func check(_ life: ServiceLife, within limit: Duration, _ connection: AMQPConnection?) throws {
        guard life.isStopping else { return }
        let end = deadline ?? .now + limit
        deadline = end
        if case .recovering? = connection?.state { throw Over() }
        if end <= .now { throw Over() }
    }
}

extension ServiceLife {
    /// Wakes the work at every commit, as long as the gate is open; returns when the store is closed.
    func follow(_ commits: AsyncStream<Void>, _ gate: Gate) async {
        for await _ in commits {
            await gate.wait()
            wakeup.signal()
        }
        // The store is closed: the next look at it tells.
        wakeup.signal()
    }
}
