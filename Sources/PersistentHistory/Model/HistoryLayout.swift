/// How much of a row an update records.
public enum RowImage: String, Sendable, Codable {
    /// The key and the changed columns, old and new.
    case changed
    /// Every column before the change, and the changed ones after it.
    case full
}

/// What of a table is recorded. Fixed for a layout; changing it starts a new one.
public struct TrackingOptions: Sendable, Hashable, Codable {
    /// How much of a row an update records.
    public var rowImage: RowImage
    /// The columns that a delete preserves as the object's tombstone, besides the key; nil means all.
    public var preservedColumns: Set<String>?
    /// Columns that never enter the history: a change of nothing else is no change.
    public var excludedColumns: Set<String>
    /// Columns of which the history tells that they changed, never from or to what.
    public var redactedColumns: Set<String>

    /// Makes options; the defaults record changed columns and preserve all.
    public init(
        rowImage: RowImage = .changed,
        preservedColumns: Set<String>? = nil,
        excludedColumns: Set<String> = [],
        redactedColumns: Set<String> = []
    ) {
        self.rowImage = rowImage
        self.preservedColumns = preservedColumns
        self.excludedColumns = excludedColumns
        self.redactedColumns = redactedColumns
    }
}

/// A recorded column of a layout.
package struct HistoryColumn: Sendable, Hashable, Codable {
    package let name: String
    /// The type as it was declared; empty where none was.
    package let type: String
    /// The position in the primary key, counted from 1; 0 outside it.
    package let keyPosition: Int
    /// The SQL expression of the default.
    package let defaultExpression: String?
}

/// The columns of an entity as records name them. Once stored it never changes: records refer to it by number, and
/// so old history stays readable whatever becomes of the table.
package final class HistoryLayout: Sendable {
    /// What is stored of a layout besides its numbers, as JSON.
    package struct Definition: Hashable, Codable, Sendable {
        package let columns: [HistoryColumn]
        let options: TrackingOptions
        /// Whether the table is one WITHOUT ROWID.
        package let isKeyed: Bool
    }

    package let id: Int64
    /// The number of the entity, which stays when the layout changes.
    let entityID: Int64
    /// The entity's name under this layout.
    package let entity: String
    package let definition: Definition
    let columnNames: [String]
    /// Positions of the key's columns, in the key's order.
    let keyColumns: [Int]
    /// Positions of the columns that a delete records: the key and the preserved ones.
    let tombstoneColumns: [Int]
    let isKey: [Bool]
    package let isRedacted: [Bool]

    init(id: Int64, entityID: Int64, entity: String, definition: Definition) {
        self.id = id
        self.entityID = entityID
        self.entity = entity
        self.definition = definition
        let columns = definition.columns
        columnNames = columns.map(\.name)
        keyColumns = columns.indices.filter { columns[$0].keyPosition > 0 }
            .sorted { columns[$0].keyPosition < columns[$1].keyPosition }
        let preserved = definition.options.preservedColumns
        tombstoneColumns = columns.indices.filter {
            columns[$0].keyPosition > 0 || preserved?.contains(columns[$0].name) ?? true
        }
        isKey = columns.map { $0.keyPosition > 0 }
        isRedacted = columns.map { definition.options.redactedColumns.contains($0.name) }
    }

    package var keyNames: [String] { keyColumns.map { columnNames[$0] } }
}
