public import PersistentHistory

/// A context made of closures: for a cache, an index or a few objects that need no type of their own.
///
/// ```swift
/// let titles = ClosureContext("titles") { batch in
///     for transaction in batch.transactions {
///         for try await change in transaction.changes where change.entity == "article" { … }
///     }
/// }
/// ```
///
/// It is not durable: after a crash, or where the closure throws, transactions come again. A closure that has its effect
/// elsewhere must bear that; ``HistoryTransaction/token`` tells a repetition.
public struct ClosureContext: MergeContext {
    /// Builds what the context keeps from the rows of a store.
    public typealias Load = @Sendable (HistorySnapshot) async throws -> Void

    /// The name, unique among the contexts of a consumer.
    public let name: String
    /// The origin under which the closure itself writes; nil where it writes nothing.
    public let origin: HistoryOrigin?
    /// True where there is a closure that loads.
    public var canLoad: Bool { loadRows != nil }
    private let loadRows: Load?
    private let mergeBatch: @Sendable (HistoryBatch) async throws -> Void

    /// A context that is given history batch by batch: the cheapest way, for those who commit once a batch.
    ///
    /// - Parameters:
    ///   - name: unique among the contexts of a consumer.
    ///   - origin: the origin under which the closure itself writes into the store, so that it does not merge what it
    ///     wrote; nil where it writes nothing.
    ///   - load: builds the state anew from a snapshot; nil where the context starts with the history.
    ///   - merge: takes the transactions of a batch in order. Where it throws, the same ones come again.
    public init(
        _ name: String, origin: HistoryOrigin? = nil, load: Load? = nil,
        merge: @escaping @Sendable (HistoryBatch) async throws -> Void
    ) {
        self.name = name
        self.origin = origin
        loadRows = load
        mergeBatch = merge
    }

    /// A context that is given history transaction by transaction.
    ///
    /// Where the closure throws, the transactions of the batch that it has taken already come again too.
    public static func eachTransaction(
        _ name: String, origin: HistoryOrigin? = nil, load: Load? = nil,
        merge: @escaping @Sendable (HistoryTransaction) async throws -> Void
    ) -> ClosureContext {
        ClosureContext(name, origin: origin, load: load) { batch in
            for transaction in batch.transactions { try await merge(transaction) }
        }
    }

    /// Gives the snapshot to the closure that loads.
    ///
    /// - Throws: what it throws; `invalidRequest` where there is none.
    public func load(_ snapshot: HistorySnapshot) async throws {
        guard let loadRows else {
            throw HistoryError(
                .invalidRequest, "the context \(name) cannot be loaded from a snapshot: give it a closure that loads")
        }
        try await loadRows(snapshot)
    }

    /// Gives the batch to the closure. Throws what it throws; nothing of the batch counts as merged then.
    public func merge(_ batch: HistoryBatch) async throws { try await mergeBatch(batch) }
}
