import HistoryMessaging
import PersistentHistory
import TidingsServices

enum CleanCommand: Subcommand {
    static let name = "clean"
    static let summary = "Delete history that every required consumer has acknowledged"
    static let operands = [Operand.configuredDatabase]
    static let options =
        ServiceOptions.options + [
            .flag("--dry-run", "only tell what would be deleted"), .flag("--json", "as one JSON object"),
        ]
    static let details = """
        Prints the number of transactions deleted. Fails, and says who blocks it, where a required consumer has never \
        acknowledged or a required author has no consumer. The tables themselves are never touched. \
        \(ServiceOptions.details)
        """

    static func run(_ arguments: Arguments) async throws {
        let settings = try ServiceOptions(arguments)
        let isDryRun = arguments.has("--dry-run")
        let report = try await Stores.writing(try settings.path()) { store in
            let options = settings.configuration.cleanerOptions(logger: settings.quietLogger)
            let cleaner = HistoryCleaner(store, broker: .none, options: options)
            guard !isDryRun else { return try await cleaner.dryRun() }
            let before = try await store.oldestToken().sequence
            return try await Progress.shown({
                (try? await store.oldestToken()).map { "cleaned \($0.sequence - before) transactions" }
            }) { try await cleaner.clean() }
        }
        if isDryRun, !report.obstacles.isEmpty {
            Output.error("tidings clean: \(report.obstacles.map(\.description).joined(separator: "; "))")
        }
        guard arguments.has("--json") else { return Output.line(String(report.count)) }
        var writer = JSONWriter()
        writer.cleaning(report, isDryRun: isDryRun)
        writer.newline()
        Output.write(writer.bytes)
    }
}

extension JSONWriter {
    /// Writes what a cleaning did, or would do, as an object.
    fileprivate mutating func cleaning(_ report: CleaningReport, isDryRun: Bool) {
        object { writer in
            writer.key("removed")
            writer.integer(Int64(report.count))
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
