internal import FoundationEssentials
internal import TidingsSQLite

extension HistoryStore {
    /// The token of the newest transaction. On a store without any it exists too: everything comes after it.
    public func currentToken() async throws -> HistoryToken {
        try await reader.read { database, state in try state.head(database) }
    }

    /// The token up to which history was purged: the oldest from which reading can begin.
    public func oldestToken() async throws -> HistoryToken {
        try await reader.read { _, state in state.mark }
    }

    /// Proves that a token stands in this store's history and that nothing after it was purged.
    ///
    /// - Throws: ``HistoryError``: `tokenInvalid`, `tokenExpired`.
    public func validate(_ token: HistoryToken) async throws {
        try await reader.read { database, state in try state.check(token, database) }
    }

    /// Transactions with their changes.
    public func history(_ request: HistoryRequest = HistoryRequest()) -> HistoryTransactions {
        HistoryTransactions(pages: pages(request))
    }

    /// Transactions without their changes, which are not even read: asking one of them for its changes is an error.
    public func transactions(_ request: HistoryRequest = HistoryRequest()) -> HistoryTransactions {
        HistoryTransactions(pages: HistoryPages(reader: reader, request: request, content: .transactions))
    }

    /// Changes alone, of one transaction after the other.
    public func changes(_ request: HistoryRequest = HistoryRequest()) -> HistoryChangeStream {
        var unlimited = request
        // The limit counts changes, and a transaction may have none: how many transactions it takes is not known.
        unlimited.limit = nil
        return HistoryChangeStream(transactions: history(unlimited), limit: request.limit)
    }

    /// The identities of changed objects, one for each change: an object that changed twice comes twice.
    public func objectIDs(
        _ request: HistoryRequest = HistoryRequest()
    ) -> AsyncMapSequence<HistoryChangeStream, HistoryObjectID> {
        changes(request).map { $0.objectID }
    }

    /// Transactions with their changes, a page at a time.
    public func pages(_ request: HistoryRequest = HistoryRequest()) -> HistoryPages {
        HistoryPages(reader: reader, request: request, content: .transactionsWithChanges)
    }

    /// The number of transactions that the request delivers.
    public func count(_ request: HistoryRequest = HistoryRequest()) async throws -> Int {
        var count = 0
        for try await page in HistoryPages(reader: reader, request: request, content: .transactions) {
            count += page.count
        }
        return count
    }

    /// Whether the request can be carried out and delivers anything, without reading more than the first match.
    public func status(_ request: HistoryRequest = HistoryRequest()) async throws -> HistoryStatus {
        var first = request
        first.limit = min(request.limit ?? 1, 1)
        let hasMatch = try await count(first) > 0
        return try await reader.read { database, state in
            HistoryStatus(hasMatch: hasMatch, oldest: state.mark, head: try state.head(database))
        }
    }

    /// The transaction with this sequence; nil where there is none, or none any more.
    public func transaction(_ sequence: Int64) async throws -> HistoryTransaction? {
        guard sequence > 0 else { return nil }
        var request = HistoryRequest()
        request.through = sequence
        request.order = .newestFirst
        request.limit = 1
        for try await transaction in history(request) where transaction.token.sequence == sequence {
            return transaction
        }
        return nil
    }
}

/// What can be said of a request without carrying it out.
public struct HistoryStatus: Sendable, Hashable {
    /// Whether the request delivers at least one transaction.
    public let hasMatch: Bool
    /// The token up to which history was purged.
    public let oldest: HistoryToken
    /// The newest transaction's token.
    public let head: HistoryToken
}
