/// A view of a store that merged history keeps up to date: objects in memory, an index, a cache, another file.
///
/// A consumer gives every transaction, in order, to every one of its contexts; a context's own are left out. Calls come
/// one after the other.
public protocol MergeContext: Sendable {
    /// The name, unique among the contexts of a consumer.
    var name: String { get }
    /// The origin under which the context itself saves into the store: such transactions are not merged into it again.
    /// nil where it does not save.
    var origin: HistoryOrigin? { get }
    /// True where the context keeps its token with its own data, committed together: then every merge has its effect
    /// exactly once, through any crash.
    var isDurable: Bool { get }
    /// True where ``load(_:)`` can build the context anew from the rows of a store.
    var canLoad: Bool { get }

    /// The token up to which the context has merged, as it stands with its own data; nil where it has never been loaded,
    /// and for a context that is not durable.
    func durableToken() async throws -> HistoryToken?

    /// Builds the context anew from a snapshot; where the snapshot is of some entities only, only these.
    ///
    /// A durable context stores the token of a whole snapshot in the same transaction. One of some entities does not move
    /// the token, since the others stand where they stood: the context remembers with these entities that their changes
    /// up to the snapshot's token are merged.
    func load(_ snapshot: HistorySnapshot) async throws

    /// Merges a batch. A durable context stores ``HistoryBatch/token`` in the same transaction, also where the batch
    /// holds no transactions, and leaves out what it has merged already.
    ///
    /// What it throws leaves the consumer's token: the batch is tried again.
    func merge(_ batch: HistoryBatch) async throws
}

extension MergeContext {
    /// None: the context does not save.
    public var origin: HistoryOrigin? { nil }
    /// False.
    public var isDurable: Bool { false }
    /// False.
    public var canLoad: Bool { false }
    /// None.
    public func durableToken() async throws -> HistoryToken? { nil }
    /// Refuses: the context cannot be loaded.
    public func load(_ snapshot: HistorySnapshot) async throws {
        throw HistoryError(.invalidRequest, "the context \(name) cannot be loaded from a snapshot")
    }
}

/// Consecutive transactions that are merged together, and how far they reach.
public struct HistoryBatch: Sendable {
    /// The transactions, in commit order.
    public let transactions: [HistoryTransaction]
    /// How far the batch reaches: transactions that were left out (by author, by origin) are behind it too.
    public let token: HistoryToken

    /// Makes a batch.
    public init(_ transactions: [HistoryTransaction], through token: HistoryToken) {
        self.transactions = transactions
        self.token = token
    }
}
