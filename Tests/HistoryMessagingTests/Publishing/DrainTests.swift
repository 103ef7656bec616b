import Glibc
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

@testable import HistoryMessaging

/// How long a publisher that was told to stop goes on.
@Suite("Draining", .timeLimit(.minutes(3)))
struct DrainTests {
    @Test("Told to stop while page after page finds room, it ends when its time is over")
    func catchingUp() async throws {
        let stopped = Locked<(publisher: HistoryPublisher, life: ServiceLife)?>(nil)
        let syncs = Locked(0)
        var storeOptions = HistoryStore.Options()
        storeOptions.synchronous = .normal
        // Each page is made durable before it is handed on; here with the second one the stop comes in between.
        storeOptions.onSync = { moment throws(HistoryError) in
            guard case .before = moment else { return }
            let count = syncs.withLock { count in
                count += 1
                return count
            }
            guard count == 2, let (publisher, life) = stopped.withLock({ $0 }) else { return }
            Task { await publisher.stop() }
            // On the thread that syncs: nobody else waits for it.
            while !life.isStopping { usleep(100) }
        }
        let temporary = try await TemporaryStore(schema: PublishingFixture.schema, options: storeOptions)
        var options = HistoryPublisher.Options()
        options.window = AMQPPublisher.Window(messages: 10_000, bytes: 64 << 20)
        options.drainTimeout = .zero
        let publisher = HistoryPublisher(
            temporary.store, broker: try Broker(urls: "amqp://127.0.0.1:1"), options: options)
        let life = await publisher.life
        stopped.withLock { $0 = (publisher, life) }
        // Three pages of a thousand.
        for _ in 0..<2001 { try await temporary.write("INSERT INTO item(v) VALUES (1)") }
        try await publisher.run()
        #expect(syncs.withLock { $0 } == 2)
        stopped.withLock { $0 = nil }
    }
}
