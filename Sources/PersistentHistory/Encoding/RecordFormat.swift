/// The first byte of every transaction's encoded changes. The whole format is described byte by byte in the article
/// "History format".
enum RecordFormat {
    /// The version that this code writes, and the only one that it reads.
    static let version: UInt8 = 1

    /// What a record is: its first byte.
    enum Kind: UInt8 {
        case insert = 1
        case update = 2
        case delete = 3
        /// An update with every column's old value.
        case fullUpdate = 4
        case track = 16
        case untrack = 17
        case alter = 18
        case rebuild = 19
        case drop = 20
        case captureBreak = 21

        var isSchemaRecord: Bool { rawValue >= 16 }
    }

    /// The serial type, unused by SQLite, that stands for the value of a redacted column.
    static let redactedSerialType: UInt64 = 10

    /// The bits of an entity's operations in `history_transaction.entities`.
    struct Operations: OptionSet, Hashable, Sendable {
        let rawValue: UInt8
        static let insert = Operations(rawValue: 1)
        static let update = Operations(rawValue: 2)
        static let delete = Operations(rawValue: 4)
        static let schema = Operations(rawValue: 8)
    }

    /// How many chunks a transaction can have: the chunk's number shares an INTEGER PRIMARY KEY with the sequence.
    static let chunkBits: Int64 = 20

    /// The largest sequence that leaves room for the chunk's number; beyond the reach of any real store.
    static let lastSequence: Int64 = .max >> chunkBits

    /// The key in `history_chunk` of one chunk of a transaction; chunks count from 1.
    static func chunkKey(sequence: Int64, chunk: Int64) -> Int64 { sequence << chunkBits | chunk }
}

extension RecordFormat.Operations {
    init(_ kind: RecordFormat.Kind) {
        self =
            switch kind {
            case .insert: .insert
            case .update, .fullUpdate: .update
            case .delete: .delete
            default: .schema
            }
    }
}
