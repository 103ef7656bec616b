public import FoundationEssentials
internal import TidingsSQLite

/// One committed transaction, as history keeps it.
public struct HistoryTransaction: Sendable {
    /// What the transaction shares with the others of its page.
    let page: PageTable
    let record: PageTable.Record

    /// Its place in the history.
    public var token: HistoryToken {
        HistoryToken(
            storeID: page.context.storeID, epoch: page.epoch, sequence: record.sequence, nonce: record.nonce)
    }
    /// Who wrote. Never empty.
    public var author: String { page.texts[record.author] }
    /// Which part of the author wrote, where it said so.
    public var contextName: String? { record.contextName.map { page.texts[$0] } }
    /// The process and instance that wrote.
    public var origin: HistoryOrigin { HistoryOrigin(stored: page.texts[record.origin]) }
    /// The writer's clock at the commit, in microseconds since 1970. For people: it orders nothing.
    public var microseconds: Int64 { record.microseconds }
    /// The number of changes to objects, whatever a request filtered.
    public var changeCount: Int { record.changeCount }
    /// The changes in order of execution; those that passed the request's filters. Of a transaction that was fetched
    /// without them, reading them is an error.
    public var changes: HistoryChanges {
        HistoryChanges(
            context: page.context, range: record.changes, chunkCount: record.chunkCount, sequence: record.sequence,
            nonce: record.nonce, isFetched: page.holdsChanges)
    }

    /// What the transaction did to which entity.
    var summary: ArraySlice<EntitySummary.Entry> { page.entries[record.entries] }

    /// The writer's clock at the commit.
    public var time: Date { Date(microsecondsSince1970: microseconds) }

    /// The entities touched, by their newest names, in order of first appearance.
    public var entities: [String] {
        summary.compactMap { changes.context.layouts.name(ofEntity: $0.entityID) }
    }

    /// What happened to tracked tables themselves in this transaction, in order.
    ///
    /// - Throws: ``HistoryError`` where history is damaged, or was purged meanwhile (`tokenExpired`).
    public func schemaChanges() async throws -> [HistorySchemaChange] {
        guard summary.contains(where: { $0.operations.contains(.schema) }) else { return [] }
        return try await changes.schemaChanges()
    }
}

/// Something that happened to a tracked table itself.
public struct HistorySchemaChange: Sendable, Hashable {
    /// What happened.
    public enum Kind: String, Sendable {
        /// Tracking began; rows that were there before are not in the history.
        case track
        /// Tracking ended.
        case untrack
        /// Columns or tracking options changed.
        case alter
        /// The table was dropped and made anew; its rows may differ in ways that history does not tell.
        case rebuild
        /// The table was dropped.
        case drop
        /// Changes may have been missed. Behind an ``alter``, which another program has made: what it did to the rows is not
        /// in the history, not even whether a column was renamed or is a new one.
        case captureBreak = "break"
    }

    /// What happened.
    public let kind: Kind
    /// The entity.
    public let entity: String
    /// Its recorded columns from here on.
    public let columns: [String]
    /// More for people; empty where there is none.
    public let detail: String

    /// Makes a record of its parts, as a message tells them.
    package init(kind: Kind, entity: String, columns: [String], detail: String) {
        self.kind = kind
        self.entity = entity
        self.columns = columns
        self.detail = detail
    }
}

/// Which entities a transaction touched and how: what filters look at before anything is decoded.
///
/// Stored as, for each entity in order of first appearance, its number as a varint and a byte of operation bits.
struct EntitySummary: Sendable, Hashable {
    struct Entry: Sendable, Hashable {
        let entityID: Int64
        var operations: RecordFormat.Operations
    }

    var entries: [Entry] = []

    init() {}

    /// Appends the entries of a stored summary.
    static func decode(_ bytes: UnsafeRawBufferPointer, into entries: inout [Entry]) throws(HistoryError) {
        var reader = RecordReader(bytes, from: 0, to: bytes.count)
        while !reader.isAtEnd {
            let id = Int64(bitPattern: try reader.varint())
            entries.append(Entry(entityID: id, operations: RecordFormat.Operations(rawValue: try reader.byte())))
        }
    }

    @inline(__always)
    mutating func add(_ operation: RecordFormat.Operations, entityID: Int64) {
        for index in entries.indices where entries[index].entityID == entityID {
            if !entries[index].operations.contains(operation) { entries[index].operations.insert(operation) }
            return
        }
        entries.append(Entry(entityID: entityID, operations: operation))
    }

    /// Forgets everything but the memory.
    mutating func removeAll() { entries.removeAll(keepingCapacity: true) }

    func encode(into buffer: RecordBuffer) {
        for entry in entries {
            buffer.append(varint: UInt64(bitPattern: entry.entityID))
            buffer.append(byte: entry.operations.rawValue)
        }
    }
}
