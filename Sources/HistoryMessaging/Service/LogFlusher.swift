internal import PersistentHistory
internal import TidingsSQLite

/// Makes a store's commits durable, on a thread of its own: the disk may take its time.
actor LogFlusher {
    private let executor: ThreadExecutor
    private let store: HistoryStore

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    /// Starts the thread. Throws where the system starts no more of them.
    init(_ store: HistoryStore) throws {
        self.store = store
        executor = try ThreadExecutor(name: "history-flush")
    }

    /// Returns when all that was committed before is on the disk.
    func flush() throws(HistoryError) { try store.makeDurable() }
}
