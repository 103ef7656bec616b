public import FoundationEssentials

/// Which part of the history to read, and in which order.
///
/// Filters are combined with "and"; a set holds alternatives. nil means no filter, an empty set means nothing:
/// never everything. Filters on entity, operation, object and changed column select transactions that hold such a
/// change, and of their changes only these.
public struct HistoryRequest: Sendable {
    /// Where to begin.
    public enum Start: Sendable, Hashable {
        /// At the oldest transaction that is there.
        case beginning
        /// After a token. The store proves its lineage first.
        case token(HistoryToken)
        /// After the longest run of oldest transactions that are not later than the date, by their writers' clocks.
        case date(Date)
    }

    /// In which order transactions come. Changes inside one are always in order of execution.
    public enum Order: Sendable, Hashable {
        /// In commit order.
        case oldestFirst
        /// Against commit order.
        case newestFirst
    }

    /// Where to begin.
    public var start: Start
    /// The last sequence to read; nil for the head at the time of the first page.
    public var through: Int64?
    /// Only transactions of these authors.
    public var authors: Set<String>?
    /// No transactions of these authors.
    public var excludedAuthors: Set<String>
    /// Only transactions of these contexts; nil in the set stands for transactions without a context's name.
    public var contextNames: Set<String?>?
    /// Only transactions of these origins.
    public var origins: Set<HistoryOrigin>?
    /// Only transactions of these processes, by number.
    public var processIDs: Set<Int>?
    /// Only transactions at or after this time, by their writers' clocks.
    public var since: Date?
    /// Only transactions before this time.
    public var before: Date?
    /// Only changes of these entities. A name that no entity has or had refuses the request.
    public var entities: Set<String>?
    /// Only these operations.
    public var operations: Set<HistoryChange.Operation>?
    /// Only changes of these objects, by their key before or after the change.
    public var objects: Set<HistoryObjectID>?
    /// Only updates that changed one of these columns.
    public var changedColumns: Set<String>?
    /// The most elements to deliver: transactions, changes or object IDs, whatever is asked for.
    public var limit: Int?
    /// The order.
    public var order: Order
    /// The most transactions in a page, each of which is one short read transaction. A page ends earlier where its
    /// changes pass a megabyte.
    public var pageSize: Int

    /// A request for everything after `start`, to be narrowed down by its properties.
    public init(
        after start: Start = .beginning, limit: Int? = nil, order: Order = .oldestFirst, pageSize: Int = 4000
    ) {
        self.start = start
        self.limit = limit
        self.order = order
        self.pageSize = pageSize
        excludedAuthors = []
    }

    /// A request for everything after a token; nil is the beginning.
    public init(after token: HistoryToken?) {
        self.init(after: token.map { .token($0) } ?? .beginning)
    }

    /// A request for everything after a transaction.
    public init(after transaction: HistoryTransaction) {
        self.init(after: .token(transaction.token))
    }

    /// True where a filter looks at single changes.
    var filtersChanges: Bool { entities != nil || operations != nil || objects != nil || changedColumns != nil }

    func validate() throws(HistoryError) {
        guard pageSize > 0 else {
            throw HistoryError(.invalidRequest, "a page size of \(pageSize) reads nothing: it must be at least 1")
        }
        if let limit, limit < 0 {
            throw HistoryError(.invalidRequest, "a limit of \(limit) is negative: leave it out for no limit")
        }
        if let through, through < 0 {
            throw HistoryError(.invalidRequest, "the last sequence \(through) is negative: sequences count from 1")
        }
    }
}
