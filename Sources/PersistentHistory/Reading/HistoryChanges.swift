internal import FoundationEssentials
internal import TidingsSQLite

/// What a page's changes have in common: their bytes, and what it takes to read them.
final class ChangeContext: Sendable {
    let bytes: [UInt8]
    let storeID: UUID
    let layouts: LayoutTable
    let filter: ChangeFilter?
    /// Reads further chunks of large transactions; nil where there are none to read.
    let source: HistoryReader?

    /// Lends the bytes.
    @inline(__always)
    func scan<R>(_ body: (UnsafeRawBufferPointer) throws(HistoryError) -> R) throws(HistoryError) -> R {
        // Array's own method erases the type of the error.
        let result = bytes.withUnsafeBytes { buffer -> Result<R, HistoryError> in
            do throws(HistoryError) {
                return .success(try body(buffer))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    /// The change that a record describes; nil for a record about a table itself, and for what the filter leaves out.
    @inline(__always)
    func change(_ record: RecordExtent) -> HistoryChange? {
        guard !record.kind.isSchemaRecord else { return nil }
        let change = HistoryChange(
            context: self, layout: record.layout, kind: record.kind, body: record.body..<record.end)
        if let filter, !filter.accepts(change) { return nil }
        return change
    }

    init(bytes: [UInt8], storeID: UUID, layouts: LayoutTable, filter: ChangeFilter?, source: HistoryReader?) {
        self.bytes = bytes
        self.storeID = storeID
        self.layouts = layouts
        self.filter = filter
        self.source = source
    }
}

/// The changes of one transaction in order of execution, decoded as they are read.
///
/// A transaction of any size is read in bounded memory: past its first part, further ones are fetched one by one
/// from the store, each with a check that history still holds the transaction.
///
/// ```swift
/// for try await change in transaction.changes where change.entity == "article" { … }
/// ```
public struct HistoryChanges: AsyncSequence, Sendable {
    /// A change.
    public typealias Element = HistoryChange

    let context: ChangeContext
    /// The first part, in the context's bytes.
    let range: Range<Int>
    /// The number of further parts in `history_chunk`.
    let chunkCount: Int64
    let sequence: Int64
    let nonce: UInt64
    /// False where the transaction was fetched without its changes.
    var isFetched = true

    /// True where all changes are in memory, so that ``decode(_:)`` can be used.
    public var isInMemory: Bool { chunkCount == 0 }

    /// Calls `body` with each change, without suspending.
    ///
    /// - Throws: `damagedHistory`; `invalidRequest` unless ``isInMemory``; what `body` throws.
    public func decode(_ body: (HistoryChange) throws -> Void) throws {
        guard isInMemory else {
            throw HistoryError(
                .invalidRequest,
                "transaction \(sequence) is too large to be decoded at once: iterate over its changes with for try await"
            )
        }
        try context.bytes.withUnsafeBytes { bytes in
            var scanner = ChangeScanner()
            var position = try versionEnd(bytes)
            while position < range.upperBound {
                let record: RecordExtent
                do throws(HistoryError) {
                    record = try scanner.record(in: bytes, at: position, to: range.upperBound, layouts: context.layouts)
                } catch {
                    throw located(error)
                }
                position = record.end
                if let change = context.change(record) { try body(change) }
            }
        }
    }

    /// The offset behind the version with which the first part begins.
    @inline(__always)
    func versionEnd(_ bytes: UnsafeRawBufferPointer) throws(HistoryError) -> Int {
        guard isFetched else {
            throw HistoryError(
                .invalidRequest,
                "transaction \(sequence) was fetched without its changes: use history(_:) or pages(_:) to have them")
        }
        guard !range.isEmpty else { return range.lowerBound }
        let version = bytes[range.lowerBound]
        guard version == RecordFormat.version else {
            throw located(
                HistoryError(
                    .damagedHistory,
                    "encoding version \(version) is not \(RecordFormat.version): a newer Tidings wrote it, or it is damaged"
                ))
        }
        return range.lowerBound + 1
    }

    /// An error with the transaction that it was met in.
    fileprivate func located(_ error: HistoryError) -> HistoryError {
        HistoryError(error.code, "transaction \(sequence): \(error.message)")
    }

    /// All changes at once. Of a very large transaction that is a lot of memory: prefer iterating.
    public func all() async throws -> [HistoryChange] {
        var changes: [HistoryChange] = []
        for try await change in self { changes.append(change) }
        return changes
    }

    func schemaChanges() async throws -> [HistorySchemaChange] {
        var found: [HistorySchemaChange] = []
        var iterator = makeAsyncIterator()
        repeat {
            while let record = try iterator.nextRecord() {
                guard record.kind.isSchemaRecord,
                    context.filter?.acceptsSchema(of: record.layout.entityID) ?? true
                else { continue }
                found.append(try iterator.schemaChange(record))
            }
        } while try await iterator.loadNextPart()
        return found
    }

    /// An iterator over the changes.
    public func makeAsyncIterator() -> Iterator { Iterator(self) }

    /// Reads the changes one by one.
    public struct Iterator: AsyncIteratorProtocol {
        private let changes: HistoryChanges
        private(set) var context: ChangeContext
        private var position: Int
        private var end: Int
        private var nextChunk: Int64 = 1
        private var scanner = ChangeScanner()
        private var hasReadVersion = false

        init(_ changes: HistoryChanges) {
            self.changes = changes
            context = changes.context
            position = changes.range.lowerBound
            end = changes.range.upperBound
        }

        /// The next change; nil at the end. Throws `damagedHistory`, or `tokenExpired` where the transaction was
        /// purged before all of it was read.
        public mutating func next() async throws -> HistoryChange? {
            while true {
                if let change = try nextInPart() { return change }
                guard try await loadNextPart() else { return nil }
            }
        }

        mutating func nextInPart() throws(HistoryError) -> HistoryChange? {
            while let record = try nextRecord() {
                if let change = context.change(record) { return change }
            }
            return nil
        }

        /// The next record of the part that is in memory.
        mutating func nextRecord() throws(HistoryError) -> RecordExtent? {
            if !hasReadVersion {
                hasReadVersion = true
                position = try context.scan { bytes throws(HistoryError) in try changes.versionEnd(bytes) }
            }
            guard position < end else { return nil }
            do throws(HistoryError) {
                let record = try context.scan { bytes throws(HistoryError) in
                    try scanner.record(in: bytes, at: position, to: end, layouts: context.layouts)
                }
                position = record.end
                return record
            } catch {
                throw changes.located(error)
            }
        }

        /// Reads on as in a chunk, which has no version.
        mutating func skipVersion() { hasReadVersion = true }

        /// Reads the next chunk into memory; false where there is none.
        mutating func loadNextPart() async throws -> Bool {
            guard nextChunk <= changes.chunkCount, let source = context.source else { return false }
            context = try await source.chunk(nextChunk, sequence: changes.sequence, nonce: changes.nonce, of: context)
            nextChunk += 1
            position = 0
            end = context.bytes.count
            return true
        }

        func schemaChange(_ record: RecordExtent) throws(HistoryError) -> HistorySchemaChange {
            let detail = try context.scan { bytes throws(HistoryError) in
                var reader = RecordReader(bytes, from: record.body, to: record.end)
                _ = try reader.varint()
                return String(decoding: bytes[reader.position..<record.end], as: UTF8.self)
            }
            return HistorySchemaChange(
                kind: HistorySchemaChange.Kind(record.kind), entity: record.layout.entity,
                columns: record.layout.columnNames, detail: detail)
        }
    }
}

extension HistorySchemaChange.Kind {
    init(_ kind: RecordFormat.Kind) {
        self =
            switch kind {
            case .track: .track
            case .untrack: .untrack
            case .alter: .alter
            case .rebuild: .rebuild
            case .drop: .drop
            default: .captureBreak
            }
    }
}

/// The part of a request that looks at single changes.
struct ChangeFilter: Sendable {
    let entityIDs: Set<Int64>?
    let operations: RecordFormat.Operations?
    let objects: Set<HistoryObjectID>?
    let changedColumns: Set<String>?
    /// Entities whose changes do not pass, whatever else is said of them.
    var excludedEntityIDs: Set<Int64> = []
    /// Whether records about tables themselves are of these entities only too; else all of them are seen.
    var appliesToSchema = false

    /// Whether a record about a table itself is seen.
    func acceptsSchema(of entityID: Int64) -> Bool { !appliesToSchema || entityIDs?.contains(entityID) ?? true }

    /// Whether a transaction may hold a change that passes, as far as its summary tells.
    func mayAccept(_ summary: ArraySlice<EntitySummary.Entry>) -> Bool {
        summary.contains { entry in
            if let entityIDs, !entityIDs.contains(entry.entityID) { return false }
            if let operations, entry.operations.isDisjoint(with: operations) { return false }
            if changedColumns != nil, !entry.operations.contains(.update) { return false }
            return objects == nil || !entry.operations.isSubset(of: .schema)
        }
    }

    /// Whether the summary alone decides: no single change has to be looked at.
    var isDecidedBySummary: Bool { objects == nil && changedColumns == nil }

    func accepts(_ change: HistoryChange) -> Bool {
        if excludedEntityIDs.contains(change.layout.entityID) { return false }
        if let entityIDs, !entityIDs.contains(change.layout.entityID) { return false }
        if let operations, !operations.contains(RecordFormat.Operations(change.kind)) { return false }
        guard objects != nil || changedColumns != nil else { return true }
        if let changedColumns, !change.changedColumns.contains(where: changedColumns.contains) { return false }
        guard let objects else { return true }
        return objects.contains(change.objectID) || change.renamedObjectID.map(objects.contains) ?? false
    }
}
