/// Transactions of a store, read page by page in short read transactions: bounded memory, whatever the history's
/// length.
///
/// The sequence ends at the head as it was at the first page. Every page proves its lineage anew: where history was
/// purged or replaced meanwhile, the next element is an error and never a hole.
public struct HistoryTransactions: AsyncSequence, Sendable {
    /// A transaction.
    public typealias Element = HistoryTransaction

    let pages: HistoryPages

    /// An iterator from the request's start.
    public func makeAsyncIterator() -> Iterator { Iterator(pages: pages.makeAsyncIterator()) }

    /// Reads the transactions one by one.
    public struct Iterator: AsyncIteratorProtocol {
        private var pages: HistoryPages.Iterator
        private var page: [HistoryTransaction] = []
        private var index = 0

        init(pages: HistoryPages.Iterator) { self.pages = pages }

        /// The next transaction; nil at the end. Throws ``HistoryError``: `tokenExpired`, `tokenInvalid`,
        /// `invalidRequest`, `damagedHistory`, `busy`, `closed`; and `CancellationError`.
        public mutating func next() async throws -> HistoryTransaction? {
            while index == page.count {
                guard let more = try await pages.next() else { return nil }
                page = more
                index = 0
            }
            defer { index += 1 }
            return page[index]
        }
    }
}

/// Pages of transactions, for those who work in batches.
public struct HistoryPages: AsyncSequence, Sendable {
    /// The transactions of one page, never none.
    public typealias Element = [HistoryTransaction]

    let reader: HistoryReader
    let request: HistoryRequest
    let content: PageContent

    /// An iterator from the request's start.
    public func makeAsyncIterator() -> Iterator { Iterator(self) }

    /// Reads the pages one by one.
    public struct Iterator: AsyncIteratorProtocol {
        private let pages: HistoryPages
        private var cursor: PageCursor?

        init(_ pages: HistoryPages) { self.pages = pages }

        /// The next page; nil at the end.
        public mutating func next() async throws -> [HistoryTransaction]? {
            while cursor?.isAtEnd != true {
                try Task.checkCancellation()
                let page = try await pages.reader.page(pages.request, pages.content, after: cursor)
                cursor = page.cursor
                if !page.transactions.isEmpty { return page.transactions }
            }
            return nil
        }
    }
}

/// Changes of many transactions, one after the other.
public struct HistoryChangeStream: AsyncSequence, Sendable {
    /// A change.
    public typealias Element = HistoryChange

    let transactions: HistoryTransactions
    let limit: Int?

    /// An iterator from the request's start.
    public func makeAsyncIterator() -> Iterator {
        Iterator(transactions: transactions.makeAsyncIterator(), remaining: limit ?? .max)
    }

    /// Reads the changes one by one.
    public struct Iterator: AsyncIteratorProtocol {
        private var transactions: HistoryTransactions.Iterator
        private var changes: HistoryChanges.Iterator?
        private var remaining: Int

        init(transactions: HistoryTransactions.Iterator, remaining: Int) {
            self.transactions = transactions
            self.remaining = remaining
        }

        /// The next change; nil at the end or at the request's limit.
        public mutating func next() async throws -> HistoryChange? {
            while remaining > 0 {
                if let change = try await changes?.next() {
                    remaining -= 1
                    return change
                }
                guard let transaction = try await transactions.next() else { return nil }
                changes = transaction.changes.makeAsyncIterator()
            }
            return nil
        }
    }
}
