import HistoryMessaging
import PersistentHistory
import TidingsAMQP
import TidingsServices

enum CleanCommand: Subcommand {
    static let name = "clean"
    static let summary = "Delete history that every required consumer has acknowledged"
    static let options =
        ServiceOptions.options + [
            .flag("--dry-run", "only tell what would be deleted"), .flag("--json", "as one JSON object"),
        ]
    static let details = """
        Prints the number of transactions deleted. Fails, and says who blocks it, where a required consumer has never \
        acknowledged or a required author has no consumer. The tables themselves are never touched. SIGTERM and SIGINT end \
        it after its write transaction, within shutdownTimeout and with exit code 0; what is left is told on standard error. \
        \(ServiceOptions.details)
        """

    static func run(_ arguments: Arguments) async throws {
        let settings = try ServiceOptions(arguments)
        let isDryRun = arguments.has("--dry-run")
        let outcome = try await settings.writing { store in
            let options = settings.configuration.cleanerOptions(logger: settings.quietLogger)
            let cleaner = HistoryCleaner(store, broker: .none, options: options)
            guard !isDryRun else {
                let report = try await cleaner.dryRun()
                return Outcome(removed: report.count, left: 0, report: report)
            }
            return try await clean(cleaner, store, settings)
        }
        let report = outcome.report
        if isDryRun, !report.obstacles.isEmpty {
            Output.error("tidings clean: \(report.obstacles.map(\.description).joined(separator: "; "))")
        }
        if outcome.left > 0 {
            Output.error("tidings clean: stopped: \(outcome.left) transactions are left to the next cleaning")
        }
        guard arguments.has("--json") else { return Output.line(String(outcome.removed)) }
        var writer = JSONWriter()
        writer.cleaning(outcome, isDryRun: isDryRun)
        writer.newline()
        Output.write(writer.bytes)
    }

    /// What was removed, or would be.
    fileprivate struct Outcome: Sendable {
        let removed: Int
        /// What could have been removed too, had no signal come.
        let left: Int
        let report: CleaningReport
    }

    private static func clean(
        _ cleaner: HistoryCleaner, _ store: HistoryStore, _ settings: ServiceOptions
    ) async throws -> Outcome {
        let before = try await store.oldestToken().sequence
        let outcome = Locked<Outcome?>(nil)
        try await StoppableWork.run(
            "clean", within: settings.configuration.shutdownTimeout, logger: settings.quietLogger
        ) { work in
            let cleaning = Task {
                try await Progress.shown({
                    (try? await store.oldestToken()).map { "cleaned \($0.sequence - before) transactions" }
                }) { try await cleaner.clean() }
            }
            work.whenStopping { cleaning.cancel() }
            do {
                let report = try await cleaning.value
                outcome.withLock { $0 = Outcome(removed: report.count, left: 0, report: report) }
            } catch is CancellationError {
                // Between two write transactions: the purge mark tells how far it came.
                let removed = Int(try await store.oldestToken().sequence - before)
                let rest = try await cleaner.dryRun()
                outcome.withLock { $0 = Outcome(removed: removed, left: rest.count, report: rest) }
            }
        }
        guard let result = outcome.withLock({ $0 }) else { throw CancellationError() }
        return result
    }
}

extension JSONWriter {
    /// Writes what a cleaning did, or would do, as an object.
    fileprivate mutating func cleaning(_ outcome: CleanCommand.Outcome, isDryRun: Bool) {
        let report = outcome.report
        object { writer in
            writer.key("removed")
            writer.integer(Int64(outcome.removed))
            writer.key("left")
            writer.integer(Int64(outcome.left))
            writer.key("dry_run")
            writer.bool(isDryRun)
            writer.key("bound")
            if let bound = report.bound { writer.token(bound) } else { writer.null() }
            writer.key("held_by")
            writer.strings(report.holders)
            writer.key("held_by_mirror")
            writer.bool(report.isHeldByMirror)
            writer.key("blocked_by")
            writer.strings(report.obstacles.map(\.description))
        }
    }
}
