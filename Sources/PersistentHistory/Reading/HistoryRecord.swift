/// One record of a transaction: a change of an object, or something that happened to a table itself.
package enum HistoryRecord: Sendable {
    /// A change of an object.
    case change(HistoryChange)
    /// Something that happened to a table, and the layout under which it is recorded from here on.
    case schema(HistorySchemaChange.Kind, HistoryLayout)
}

extension HistoryTransaction {
    /// Calls `body` with each record in order of execution, of a transaction of any size in bounded memory.
    ///
    /// - Throws: what reading ``changes`` throws; what `body` throws.
    package func forEachRecord(_ body: (HistoryRecord) throws -> Void) async throws {
        var iterator = changes.makeAsyncIterator()
        repeat {
            while let record = try iterator.nextRecord() {
                if record.kind.isSchemaRecord {
                    guard iterator.context.filter?.acceptsSchema(of: record.layout.entityID) ?? true else { continue }
                    try body(.schema(HistorySchemaChange.Kind(record.kind), record.layout))
                } else if let change = iterator.context.change(record) {
                    try body(.change(change))
                }
            }
        } while try await iterator.loadNextPart()
    }
}
