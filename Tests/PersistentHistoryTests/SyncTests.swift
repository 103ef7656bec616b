import PersistentHistory
import Synchronization
import Testing
import TidingsSQLite
import TidingsTestKit

/// Making commits durable, as agents ask for it.
@Suite("Syncing the log", .timeLimit(.minutes(3)))
struct SyncTests {
    @Test("a sync is told before and after; what is thrown before stands for a disk that fails, and nothing is synced")
    func observed() async throws {
        let moments = Mutex<[SyncMoment]>([])
        let failure = Mutex<HistoryError?>(nil)
        var options = HistoryStore.Options()
        options.onSync = { moment throws(HistoryError) in
            moments.withLock { $0.append(moment) }
            if let error = failure.withLock({ $0 }) { throw error }
        }
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY)", options: options)
        // Commits under NORMAL sync nothing.
        #expect(moments.withLock { $0 } == [])
        try temporary.store.makeDurable()
        #expect(moments.withLock { $0 } == [.before, .after])
        failure.withLock { $0 = HistoryError(.diskFull, "full") }
        let error = #expect(throws: HistoryError.self) { try temporary.store.makeDurable() }
        #expect(error?.code == .diskFull)
        #expect(moments.withLock { $0 } == [.before, .after, .before])
    }
}
