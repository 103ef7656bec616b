import Foundation
import PersistentHistory
import TidingsSQLite

enum InfoCommand: Subcommand {
    static let name = "info"
    static let summary = "Tell what the store is and what it tracks"
    static let operands = "DB"
    static let operandCount = 1...1
    static let options: [Option] = [.flag("--json", "as one JSON object")]

    static func run(_ arguments: Arguments) async throws {
        let store = try await Stores.openForReading(arguments.operands[0])
        let info = try await store.info()
        if arguments.has("--json") {
            var writer = JSONWriter()
            write(info, to: &writer)
            writer.newline()
            Output.write(writer.bytes)
        } else {
            for line in lines(info) { Output.line(line) }
        }
        await store.close()
    }

    private static func lines(_ info: HistoryStoreInfo) -> [String] {
        let times = [info.oldestTime, info.newestTime].compactMap { $0 }.map(text)
        let range =
            times.count == 2 ? ", \(info.oldest.sequence + 1) … \(info.head.sequence), \(times[0]) … \(times[1])" : ""
        var lines = [
            "path          \(info.path)",
            "store         \(info.storeID.uuidString.lowercased())",
            "format        \(info.format)",
            "epoch         \(info.head.epoch)",
            "head          \(info.head.sequence)",
            "purged        \(info.oldest.sequence == 0 ? "nothing" : "up to \(info.oldest.sequence)")",
            "transactions  \(info.transactionCount)\(range)",
            "file size     \(info.fileSize) bytes",
            "publishing    \(info.publishedSequence.map { "up to \($0)" } ?? "off")",
        ]
        lines.append(info.entities.isEmpty ? "tracked       nothing" : "tracked")
        lines += info.entities.map { "  \($0.name)(\($0.columns.joined(separator: ", ")))\(options($0.options))" }
        if !info.untrackedTables.isEmpty { lines.append("not tracked") }
        lines += info.untrackedTables.map { "  \($0.name)" + ($0.obstacle.map { ": \($0)" } ?? "") }
        return lines
    }

    private static func text(_ date: Date) -> String { RFC3339.string(microseconds: date.microsecondsSince1970) }

    private static func options(_ options: TrackingOptions) -> String {
        var parts: [String] = []
        if options.rowImage == .full { parts.append("row image full") }
        if let preserved = options.preservedColumns {
            parts.append("preserved \(preserved.sorted().joined(separator: ", "))")
        }
        if !options.excludedColumns.isEmpty {
            parts.append("excluded \(options.excludedColumns.sorted().joined(separator: ", "))")
        }
        if !options.redactedColumns.isEmpty {
            parts.append("redacted \(options.redactedColumns.sorted().joined(separator: ", "))")
        }
        return parts.isEmpty ? "" : "  \(parts.joined(separator: "; "))"
    }

    private static func write(_ info: HistoryStoreInfo, to writer: inout JSONWriter) {
        writer.object { writer in
            writer.key("path")
            writer.string(info.path)
            writer.key("store")
            writer.string(info.storeID.uuidString.lowercased())
            writer.key("format")
            writer.integer(info.format)
            writer.key("head")
            writer.token(info.head)
            writer.key("purged")
            writer.token(info.oldest)
            writer.key("transactions")
            writer.integer(info.transactionCount)
            writer.key("oldest_time")
            writer.string(info.oldestTime.map(text))
            writer.key("newest_time")
            writer.string(info.newestTime.map(text))
            writer.key("file_size")
            writer.integer(info.fileSize)
            writer.key("published")
            if let sequence = info.publishedSequence { writer.integer(sequence) } else { writer.null() }
            writer.key("tracked")
            writer.array { writer in for entity in info.entities { write(entity, to: &writer) } }
            writer.key("not_tracked")
            writer.array { writer in for table in info.untrackedTables { write(table, to: &writer) } }
        }
    }

    private static func write(_ entity: HistoryStoreInfo.Entity, to writer: inout JSONWriter) {
        writer.object { writer in
            writer.key("entity")
            writer.string(entity.name)
            writer.key("columns")
            writer.strings(entity.columns)
            writer.key("key")
            writer.strings(entity.keyColumns)
            writer.key("row_image")
            writer.string(entity.options.rowImage.rawValue)
            writer.key("preserved")
            if let preserved = entity.options.preservedColumns {
                writer.strings(preserved.sorted())
            } else {
                writer.null()
            }
            writer.key("excluded")
            writer.strings(entity.options.excludedColumns.sorted())
            writer.key("redacted")
            writer.strings(entity.options.redactedColumns.sorted())
        }
    }

    private static func write(_ table: HistoryStoreInfo.UntrackedTable, to writer: inout JSONWriter) {
        writer.object { writer in
            writer.key("table")
            writer.string(table.name)
            writer.key("obstacle")
            writer.string(table.obstacle)
        }
    }
}
