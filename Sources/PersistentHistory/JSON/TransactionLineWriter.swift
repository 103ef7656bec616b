/// Writes transactions as JSON, one object a line: token, author, context, origin, time, entities, changes.
///
/// The token comes first, so that a reader finds the place of a line without reading all of it.
package struct TransactionLineWriter: Sendable {
    /// What every line begins with.
    package static let start = Array("{\"token\":{".utf8)
    /// The size of a piece past which it is given away.
    private static let pieceSize = 1 << 16

    private var writer = JSONWriter()

    /// Makes a writer, which reuses its buffer from line to line.
    package init() {}

    /// Writes one transaction in memory that does not grow with its size.
    ///
    /// - Parameter sink: takes the line piece by piece; false where it wants no more.
    package mutating func write(_ transaction: HistoryTransaction, to sink: ([UInt8]) throws -> Bool) async throws {
        writer.removeAll()
        writer.beginObject()
        writer.header(of: transaction)
        writer.key("changes")
        writer.beginArray()
        for try await change in transaction.changes {
            writer.change(change.decoded())
            if writer.bytes.count >= Self.pieceSize {
                guard try sink(writer.takeBytes()) else { return }
            }
        }
        writer.endArray()
        writer.endObject()
        writer.newline()
        _ = try sink(writer.takeBytes())
    }
}
