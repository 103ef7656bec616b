import FoundationEssentials
import PersistentHistory
import TidingsSQLite

extension JSONWriter {
    /// Writes what there is to know of a store.
    mutating func info(_ info: HistoryStoreInfo) {
        object { writer in
            writer.key("path")
            writer.string(info.path)
            writer.key("store")
            writer.string(info.storeID.uuidString.lowercased())
            writer.key("format")
            writer.integer(info.format)
            writer.key("epoch")
            writer.integer(info.head.epoch)
            writer.key("head")
            writer.token(info.head)
            writer.key("purged")
            writer.token(info.oldest)
            writer.key("transactions")
            writer.integer(info.transactionCount)
            writer.times(info)
            writer.key("history_size")
            writer.integer(info.historySize)
            writer.key("file_size")
            writer.integer(info.fileSize)
            writer.key("published")
            if let sequence = info.publishedSequence { writer.integer(sequence) } else { writer.null() }
            writer.key("tracked")
            writer.array { writer in for entity in info.entities { writer.entity(entity) } }
            writer.key("not_tracked")
            writer.array { writer in for table in info.untrackedTables { writer.table(table) } }
        }
    }

    private mutating func times(_ info: HistoryStoreInfo) {
        key("oldest_time")
        string(info.oldestTime.map { RFC3339.string(microseconds: $0.microsecondsSince1970) })
        key("newest_time")
        string(info.newestTime.map { RFC3339.string(microseconds: $0.microsecondsSince1970) })
    }

    private mutating func entity(_ entity: HistoryStoreInfo.Entity) {
        object { writer in
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

    private mutating func table(_ table: HistoryStoreInfo.UntrackedTable) {
        object { writer in
            writer.key("table")
            writer.string(table.name)
            writer.key("obstacle")
            writer.string(table.obstacle)
        }
    }
}
