import FoundationEssentials
import PersistentHistory

/// What `tidings consume --report FILE` writes, about once a second and at its end.
struct ConsumeReport: Sendable, Codable {
    /// The transactions merged since the process began, and their lags.
    var lag = LagHistogram()
    /// The sequence of the last one.
    var sequence: Int64 = 0

    /// Replaces the file, so that whoever reads it meets a whole report.
    func write(to path: String) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        do {
            try encoder.encode(self).write(to: URL(filePath: path), options: .atomic)
        } catch {
            throw CommandError("\(path) cannot be written: check the path, and this user's permission")
        }
    }

    static func read(_ path: String) throws -> ConsumeReport {
        guard let data = FileManager.default.contents(atPath: path),
            let report = try? JSONDecoder().decode(ConsumeReport.self, from: data)
        else { throw CommandError("\(path) is no report of `tidings consume`") }
        return report
    }
}

/// Measures how long transactions took to be merged, and writes that to a file. A file that cannot be written is told, and
/// holds up nothing.
actor LagReport {
    private let path: String
    private let logger: any HistoryLogger
    private var report = ConsumeReport()
    private var writtenAt: ContinuousClock.Instant?

    init(path: String, logger: any HistoryLogger) {
        self.path = path
        self.logger = logger
    }

    /// A context that tells the report what it has merged.
    nonisolated func following(_ context: any MergeContext) -> any MergeContext {
        AdaptedContext(context) { batch in
            try await context.merge(batch)
            await self.add(batch)
        }
    }

    private func add(_ batch: HistoryBatch) {
        let now = SystemHistoryClock().microseconds
        for transaction in batch.transactions { report.lag.add(microseconds: now - transaction.microseconds) }
        report.sequence = batch.token.sequence
        if let writtenAt, ContinuousClock.now - writtenAt < .seconds(1) { return }
        write()
    }

    func write() {
        writtenAt = .now
        do {
            try report.write(to: path)
        } catch {
            logger.log(.warning) { HistoryLogEntry("report", CommandError.text(of: error)) }
        }
    }
}
