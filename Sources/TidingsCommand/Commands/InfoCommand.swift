import FoundationEssentials
import PersistentHistory
import TidingsSQLite

enum InfoCommand: Subcommand {
    static let name = "info"
    static let summary = "Tell what the store is and what it tracks"
    static let options: [Option] = [.flag("--json", "as one JSON object")] + ServiceOptions.storeOptions

    static func run(_ arguments: Arguments) async throws {
        let info = try await Stores.reading(ServiceOptions.readingPath(arguments)) { try await $0.info() }
        if arguments.has("--json") {
            var writer = JSONWriter()
            writer.info(info)
            writer.newline()
            Output.write(writer.bytes)
        } else {
            for line in lines(info) { Output.line(ReadableText.plain(line)) }
        }
    }

    private static func lines(_ info: HistoryStoreInfo) -> [String] {
        [
            "path: \(info.path)",
            "store: \(info.storeID.uuidString.lowercased())",
            "format: \(info.format)",
            "epoch: \(info.head.epoch)",
            "head: \(info.head.sequence)",
            "purged: \(info.oldest.sequence == 0 ? "nothing" : "up to \(info.oldest.sequence)")",
            "transactions: \(info.transactionCount)\(times(info))",
            "history size: \(info.historySize) bytes",
            "file size: \(info.fileSize) bytes",
            "publishing: \(info.publishedSequence.map { "up to \($0)" } ?? "off")",
            info.entities.isEmpty ? "tracked: nothing" : "tracked:",
        ] + info.entities.map { "  \($0.name)(\(columns($0)))\(options($0.options))" }
            + (info.untrackedTables.isEmpty ? [] : ["not tracked:"])
            + info.untrackedTables.map { "  \($0.name)" + ($0.obstacle.map { ": \($0)" } ?? "") }
    }

    private static func times(_ info: HistoryStoreInfo) -> String {
        guard let oldest = info.oldestTime, let newest = info.newestTime else { return "" }
        return ", \(text(oldest)) to \(text(newest))"
    }

    private static func text(_ date: Date) -> String { RFC3339.string(microseconds: date.microsecondsSince1970) }

    /// The columns, those of the key with a star.
    private static func columns(_ entity: HistoryStoreInfo.Entity) -> String {
        entity.columns.map { entity.keyColumns.contains($0) ? "\($0)*" : $0 }.joined(separator: ", ")
    }

    private static func options(_ options: TrackingOptions) -> String {
        var parts: [String] = []
        if options.rowImage == .full { parts.append("row image full") }
        if let preserved = options.preservedColumns {
            parts.append(preserved.isEmpty ? "nothing preserved" : "preserved \(list(preserved))")
        }
        if !options.excludedColumns.isEmpty { parts.append("excluded \(list(options.excludedColumns))") }
        if !options.redactedColumns.isEmpty { parts.append("redacted \(list(options.redactedColumns))") }
        return parts.isEmpty ? "" : "  \(parts.joined(separator: "; "))"
    }

    private static func list(_ columns: Set<String>) -> String { columns.sorted().joined(separator: ", ") }
}
