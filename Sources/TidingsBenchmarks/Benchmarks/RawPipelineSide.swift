import TidingsSQLite

/// The floor of the pipeline, on threads of its own: one that commits, one that publishes and receives.
struct RawPipelineSide: Sendable {
    private let endpoint: BrokerEndpoint
    private let path: String
    private let writer: RawCommitter
    private let follower: RawFollower

    /// - Parameters:
    ///   - path: a database with articles, and nobody else's.
    ///   - extra: the bytes of history's row in each transaction.
    init(_ endpoint: BrokerEndpoint, _ path: String, rows: Int, extra: Int) async throws {
        self.endpoint = endpoint
        self.path = path
        writer = try RawCommitter(path, rows: rows, extra: extra)
        follower = try RawFollower()
        try await writer.open()
    }

    /// Commits one by one, each merged before the next.
    func oneByOne(_ count: Int, bodySize: Int) async throws -> [UInt64] {
        try await RawQueue.with(.quorum, endpoint) { queue in
            let run = BrokerRun(queue: queue, count: count, size: bodySize, window: 1)
            return try await writer.oneByOne(endpoint, run)
        }
    }

    /// Commits flat out, and what is merged of it.
    func flatOut(_ count: Int, bodySize: Int, window: Int) async throws -> RunFigures {
        try await RawQueue.with(.quorum, endpoint) { queue in
            let run = BrokerRun(queue: queue, count: count, size: bodySize, window: window)
            return try await follower.follow(endpoint, run, path, CommitTimes(count: count), from: writer)
        }
    }
}

/// Commits by C functions.
actor RawCommitter {
    private let executor: ThreadExecutor
    private let path: String
    private let extra: Int
    private var articles: RawArticles?
    private var workload: ArticleWorkload

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(_ path: String, rows: Int, extra: Int) throws {
        executor = try ThreadExecutor(name: "floor-writer")
        self.path = path
        self.extra = extra
        workload = ArticleWorkload(rows: rows)
    }

    /// Opens the connection on the thread that uses it, and begins the log.
    func open() throws {
        articles = try RawArticles(path)
        try commit()
    }

    private func commit() throws {
        workload.prepare(.update)
        try articles?.transaction(.update, workload, extra: extra)
    }

    func oneByOne(_ endpoint: BrokerEndpoint, _ run: BrokerRun) throws -> [UInt64] {
        try RawPipeline(endpoint, run, database: path).oneByOne { try commit() }
    }

    func commitAll(_ count: Int, _ commits: CommitTimes) {
        do {
            for _ in 0..<count {
                commits.begin()
                try commit()
                commits.end()
            }
        } catch {
            commits.fail()
        }
    }
}

/// Publishes and receives by C functions what somebody else commits.
private actor RawFollower {
    private let executor: ThreadExecutor

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init() throws { executor = try ThreadExecutor(name: "floor-follower") }

    /// Makes its connections, then lets the writer begin, and follows it.
    func follow(
        _ endpoint: BrokerEndpoint, _ run: BrokerRun, _ path: String, _ commits: CommitTimes, from writer: RawCommitter
    ) async throws -> RunFigures {
        let pipeline = try RawPipeline(endpoint, run, database: path)
        let meter = RunMeter(.process)
        async let writing: Void = writer.commitAll(run.count, commits)
        let figures = Result { meter.figures(latencies: try pipeline.follow(commits)) }
        await writing
        return try figures.get()
    }
}
