internal import FoundationEssentials
internal import TidingsSQLite

/// One change of one object: an insert, an update or a delete.
///
/// A view of encoded bytes: values are decoded when they are asked for.
public struct HistoryChange: Sendable {
    /// What was done to the object.
    public enum Operation: String, Sendable, Hashable, CaseIterable {
        /// The object is new.
        case insert
        /// Some of its columns changed.
        case update
        /// The object is gone.
        case delete
    }

    let context: ChangeContext
    package let layout: HistoryLayout
    let kind: RecordFormat.Kind
    /// The record's body in the context's bytes.
    let body: Range<Int>

    /// The entity: the tracked table, by the name it had at the time.
    public var entity: String { layout.entity }

    /// What was done.
    public var operation: Operation {
        switch kind {
        case .insert: .insert
        case .delete: .delete
        default: .update
        }
    }

    /// The object, by its key before the change (which for an insert is the new one).
    public var objectID: HistoryObjectID {
        HistoryObjectID(storeID: context.storeID, entity: entity, key: decoded().key)
    }

    /// The object's identity after an update that changed its primary key; nil for every other change.
    public var renamedObjectID: HistoryObjectID? {
        let row = decoded()
        guard let newKey = row.newKey else { return nil }
        return HistoryObjectID(storeID: context.storeID, entity: entity, key: newKey)
    }

    /// The columns that an update changed, redacted ones included; empty for inserts and deletes.
    public var changedColumns: [String] { decoded().changed }

    /// The redacted columns of this record: they changed, or are part of the row, but their values are not kept.
    public var redactedColumns: [String] { decoded().redacted }

    /// The values before the change: of an update the changed columns (with row image `full` all of them), of a
    /// delete the preserved ones; nil for an insert.
    public var before: HistoryValues? { decoded().before }

    /// The values after the change: of an insert all columns, of an update the changed ones; nil for a delete.
    public var after: HistoryValues? { decoded().after }

    /// The preserved values of a deleted object; nil unless this is a delete.
    public var tombstone: HistoryValues? { operation == .delete ? before : nil }

    /// Decodes everything at once: for those who want more than one of the properties.
    public func decoded() -> DecodedChange {
        context.bytes.withUnsafeBytes { bytes in
            var reader = RecordReader(bytes, from: body.lowerBound, to: body.upperBound)
            var builder = DecodedChange.Builder(layout: layout, operation: operation)
            do throws(HistoryError) {
                try builder.read(kind, in: bytes, &reader)
            } catch {
                // The scanner has read this record to its end before it made the view, by the same rules.
                preconditionFailure("a checked record cannot be decoded: \(error)")
            }
            return builder.finish()
        }
    }
}

/// A change with all its values, owned.
public struct DecodedChange: Sendable, Hashable {
    /// The entity.
    public let entity: String
    /// What was done.
    public let operation: HistoryChange.Operation
    /// The key before the change.
    public let key: HistoryValues
    /// The key after an update that changed it.
    public let newKey: HistoryValues?
    /// The columns that an update changed.
    public let changed: [String]
    /// See ``HistoryChange/redactedColumns``.
    public let redacted: [String]
    /// See ``HistoryChange/before``.
    public let before: HistoryValues?
    /// See ``HistoryChange/after``.
    public let after: HistoryValues?

    /// Makes a change of its parts, as a message tells them.
    package init(
        entity: String, operation: HistoryChange.Operation, key: HistoryValues, newKey: HistoryValues?,
        changed: [String], redacted: [String], before: HistoryValues?, after: HistoryValues?
    ) {
        self.entity = entity
        self.operation = operation
        self.key = key
        self.newKey = newKey
        self.changed = changed
        self.redacted = redacted
        self.before = before
        self.after = after
    }
}

extension DecodedChange {
    /// Collects the values of one record.
    struct Builder {
        let layout: HistoryLayout
        let operation: HistoryChange.Operation
        /// By column; nil where the record has no such value.
        private var old: [SQLiteValue?]
        private var new: [SQLiteValue?]
        /// In ascending order, like the columns of a record.
        private var changed: [Int] = []
        private var redacted: [Int] = []
        private var isFullImage = false

        init(layout: HistoryLayout, operation: HistoryChange.Operation) {
            self.layout = layout
            self.operation = operation
            let count = layout.columnNames.count
            // The side that an operation does not have stays empty.
            old = operation == .insert ? [] : Array(repeating: nil, count: count)
            new = operation == .delete ? [] : Array(repeating: nil, count: count)
        }

        mutating func read(
            _ kind: RecordFormat.Kind, in bytes: UnsafeRawBufferPointer, _ reader: inout RecordReader
        ) throws(HistoryError) {
            switch kind {
            case .insert:
                for column in layout.columnNames.indices { new[column] = try value(of: column, &reader) }
            case .delete:
                for column in layout.tombstoneColumns { old[column] = try value(of: column, &reader) }
            case .update:
                for column in layout.keyColumns { old[column] = try value(of: column, &reader) }
                let map = try ChangeScanner.changedColumns(layout, in: bytes, &reader)
                for column in layout.columnNames.indices where map.contains(column) {
                    changed.append(column)
                    if !layout.isKey[column] {
                        old[column] = try value(of: column, &reader)
                    }
                    new[column] = try value(of: column, &reader)
                }
            case .fullUpdate:
                isFullImage = true
                for column in layout.columnNames.indices { old[column] = try value(of: column, &reader) }
                let map = try ChangeScanner.changedColumns(layout, in: bytes, &reader)
                for column in layout.columnNames.indices where map.contains(column) {
                    changed.append(column)
                    new[column] = try value(of: column, &reader)
                }
            case .track, .untrack, .alter, .rebuild, .drop, .captureBreak:
                break
            }
        }

        private mutating func value(of column: Int, _ reader: inout RecordReader) throws(HistoryError) -> SQLiteValue? {
            guard let value = try reader.value() else {
                redacted.append(column)
                return nil
            }
            return value
        }

        func finish() -> DecodedChange {
            let keyColumns = layout.keyColumns
            let isRenamed = operation == .update && keyColumns.contains { new[$0] != nil }
            let names = layout.columnNames
            // The old values of an update's key are its identity; they are "before" only where the key changed.
            let isWholeBefore = isFullImage || operation == .delete
            return DecodedChange(
                entity: layout.entity,
                operation: operation,
                key: pick(keyColumns, operation == .insert ? new : old),
                newKey: isRenamed ? renamedKey() : nil,
                changed: changed.map { names[$0] },
                redacted: redacted.isEmpty ? [] : Set(redacted).sorted().map { names[$0] },
                before: operation == .insert ? nil : isWholeBefore ? all(old) : pick(changed, old),
                after: operation == .delete ? nil : operation == .insert ? all(new) : pick(changed, new))
        }

        /// The key after an update of it: the parts that changed, and the ones that stayed.
        private func renamedKey() -> HistoryValues {
            var row = old
            for column in layout.keyColumns { row[column] = new[column] ?? old[column] }
            return pick(layout.keyColumns, row)
        }

        /// Every value that is there.
        private func all(_ row: [SQLiteValue?]) -> HistoryValues {
            if redacted.isEmpty, row.allSatisfy({ $0 != nil }) {
                return HistoryValues(columns: layout.columnNames, values: row.compactMap { $0 })
            }
            return pick(row.indices, row)
        }

        /// The values that are there, of the columns asked for.
        private func pick(_ columns: some Collection<Int>, _ row: [SQLiteValue?]) -> HistoryValues {
            var names: [String] = []
            var values: [SQLiteValue] = []
            names.reserveCapacity(columns.count)
            values.reserveCapacity(columns.count)
            for column in columns {
                guard let value = row[column] else { continue }
                names.append(layout.columnNames[column])
                values.append(value)
            }
            return HistoryValues(columns: names, values: values)
        }
    }
}
