import Glibc
import HistoryMessaging
import PersistentHistory
import Synchronization

extension TestAgent {
    /// `cleaner <store> <url> <step> <occurrence> <last>`: cleans after each acknowledgement, and ends itself at a step's
    /// occurrence; otherwise ends once all consumers have acknowledged `last`, and everything before it is purged.
    static func cleaner(_ arguments: [String]) async throws {
        guard arguments.count == 5, let occurrence = Int(arguments[3]), let last = Int64(arguments[4]) else {
            throw Usage()
        }
        let store = try await HistoryStore.open(arguments[0], author: "cleaner-agent")
        let (steps, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let count = Mutex(0)
        let end = AgentStep(rawValue: arguments[2])
        var options = HistoryCleaner.Options()
        options.strategy = .byAcknowledgements(1)
        options.cleanOnStart = true
        options.chunk = 5
        options.onStep = { step in
            continuation.yield()
            guard step == end else { return }
            let number = count.withLock { count in
                count += 1
                return count
            }
            if number == occurrence { kill(getpid(), SIGKILL) }
        }
        let cleaner = HistoryCleaner(store, broker: try Broker(urls: arguments[1]), options: options)
        continuation.yield()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                do {
                    try await cleaner.run()
                } catch {
                    // Whoever waits for steps would wait for ever.
                    print("the cleaner has ended: \(error)")
                    exit(3)
                }
            }
            for await _ in steps {
                let purged = try await store.observe { _, state in state.purgedSequence }
                let consumers = try await store.consumers()
                if purged >= last - 1, consumers.allSatisfy({ $0.acknowledged?.sequence == last }) { break }
            }
            await cleaner.stop()
            try await group.waitForAll()
        }
        await store.close()
    }
}
