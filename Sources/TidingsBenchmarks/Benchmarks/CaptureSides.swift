import PersistentHistory
import TidingsSQLite

/// One-row transactions through the library.
struct TrackedSide {
    let store: HistoryStore
    private let path: String
    private var workload: ArticleWorkload

    init(_ path: String, rows: Int, synchronous: Synchronous = .normal) async throws {
        var options = HistoryStore.Options()
        options.synchronous = synchronous
        self.path = path
        store = try await HistoryStore.open(path, author: "benchmark", create: true, options: options)
        try await store.track(["article"])
        workload = ArticleWorkload(rows: rows)
    }

    /// Microseconds for a transaction, in the mean of `count`.
    mutating func slice(_ operation: RowOperation, _ count: Int) async throws -> Double {
        let start = MonotonicClock.nanoseconds
        workload = try await store.writeRepeatedly(count, from: workload) { database, workload in
            workload.prepare(operation)
            try workload.write(operation, database)
        }
        return Double(MonotonicClock.nanoseconds - start) / 1000 / Double(count)
    }

    /// The same, of updates that are awaited one by one.
    mutating func awaitedSlice(_ count: Int) async throws -> Double {
        let start = MonotonicClock.nanoseconds
        for _ in 0..<count {
            workload.prepare(.update)
            let row = workload
            try await store.write { database in try row.write(.update, database) }
        }
        return Double(MonotonicClock.nanoseconds - start) / 1000 / Double(count)
    }

    /// The bytes of history's row in the newest transactions, all columns together.
    func rowSize() async throws -> Int {
        let sql = """
            SELECT avg(length(author) + length(origin) + length(entities) + length(changes) + 16 + 10) FROM
            (SELECT * FROM history_transaction ORDER BY sequence DESC LIMIT 400)
            """
        return try await store.read { database in Int(try database.first(sql, as: Double.self) ?? 0) }
    }

    /// Log frames and virtual-machine steps for a transaction.
    mutating func work(_ operation: RowOperation, _ count: Int) async throws -> (frames: Double, steps: Double) {
        try RawDatabase(path).checkpoint()
        _ = try await store.takeVirtualMachineSteps()
        _ = try await slice(operation, count)
        let steps = Double(try await store.takeVirtualMachineSteps())
        return (RawSide.frames(path) / Double(count), steps / Double(count))
    }
}

/// One-row transactions by C functions, on a thread of their own like the library's.
actor RawSide {
    private let executor: ThreadExecutor
    private let path: String
    private let synchronous: Synchronous
    private var articles: RawArticles?
    private var workload: ArticleWorkload

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(_ path: String, rows: Int, synchronous: Synchronous = .normal) throws {
        executor = try ThreadExecutor(name: "floor")
        self.path = path
        self.synchronous = synchronous
        workload = ArticleWorkload(rows: rows)
    }

    /// The connection, opened on the thread that uses it.
    private func opened() throws -> RawArticles {
        if let articles { return articles }
        let opened = try RawArticles(path, synchronous: synchronous.rawValue)
        articles = opened
        return opened
    }

    /// Microseconds for a transaction, in the mean of `count`.
    func slice(_ operation: RowOperation, _ count: Int, extra: Int) throws -> Double {
        let articles = try opened()
        let start = MonotonicClock.nanoseconds
        for _ in 0..<count {
            workload.prepare(operation)
            try articles.transaction(operation, workload, extra: extra)
        }
        return Double(MonotonicClock.nanoseconds - start) / 1000 / Double(count)
    }

    /// Log frames and virtual-machine steps for a transaction.
    func work(
        _ operation: RowOperation, _ count: Int, extra: Int
    ) throws -> (frames: Double, steps: Double) {
        let articles = try opened()
        try articles.database.checkpoint()
        _ = articles.database.takeVirtualMachineSteps()
        _ = try slice(operation, count, extra: extra)
        let steps = Double(articles.database.takeVirtualMachineSteps())
        return (Self.frames(path) / Double(count), steps / Double(count))
    }

    /// The frames in the log of a database, since it was last emptied.
    static func frames(_ path: String) -> Double {
        Double(max(0, ScratchDirectory.size(of: path + "-wal") - 32)) / 4120
    }
}
