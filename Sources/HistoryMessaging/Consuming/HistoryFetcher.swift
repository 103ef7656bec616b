internal import PersistentHistory

/// A page of history on its way to be merged.
struct FetchedPage: Sendable {
    /// A transaction from which on history tells an entity only in part, so that it has to be loaded anew.
    struct Break: Sendable, Hashable {
        let sequence: Int64
        let entities: Set<String>
    }

    /// What is to be merged, and how far it reaches.
    let batch: HistoryBatch
    /// Breaks among these transactions, or between them; also in those of authors that are not merged.
    var breaks: [Break] = []
    /// True where the head is reached.
    let isAtEnd: Bool

    /// True where a skip would take one transaction only, and no break of another with it.
    func isSingle(after start: Int64?) -> Bool {
        guard batch.transactions.count <= 1 else { return false }
        return breaks.isEmpty || start.map { batch.token.sequence <= $0 + 1 } ?? false
    }
}

/// Reads history that is missing, page by page.
struct HistoryFetcher: Sendable {
    private let store: HistoryStore
    private let authors: Set<String>?
    private let excluded: Set<String>
    /// True where contexts can be loaded anew: only then breaks are looked for.
    private let looksForBreaks: Bool

    init(_ store: HistoryStore, _ options: HistoryConsumer.Options, looksForBreaks: Bool) {
        self.store = store
        authors = options.authors
        excluded = options.excluded
        self.looksForBreaks = looksForBreaks
    }

    /// The page after a token; its token passes what no filter lets through.
    ///
    /// Throws `tokenExpired`, `tokenInvalid`, and what else the store throws.
    func page(after token: HistoryToken, size: Int) async throws -> FetchedPage {
        var request = HistoryRequest(after: .token(token), pageSize: size)
        let filters = authors != nil || !excluded.isEmpty
        if filters, !looksForBreaks {
            request.authors = authors
            request.excludedAuthors = excluded
        }
        let fetch = try await store.fetch(request)
        var transactions = fetch.transactions
        let breaks = looksForBreaks ? try await Self.breaks(in: transactions) : []
        // A break matters whoever made it, so that with contexts to load everything is looked at.
        if filters, looksForBreaks { transactions.removeAll { !isWanted($0.author) } }
        return FetchedPage(
            batch: HistoryBatch(transactions, through: fetch.token), breaks: breaks, isAtEnd: fetch.isAtEnd)
    }

    private func isWanted(_ author: String) -> Bool {
        !excluded.contains(author) && (authors?.contains(author) ?? true)
    }

    private static func breaks(in transactions: [HistoryTransaction]) async throws -> [FetchedPage.Break] {
        var breaks: [FetchedPage.Break] = []
        for transaction in transactions where transaction.touchesSchema {
            let records = try await transaction.schemaChanges().filter {
                $0.kind == .captureBreak || $0.kind == .rebuild || $0.kind == .track
            }
            guard !records.isEmpty else { continue }
            breaks.append(
                FetchedPage.Break(sequence: transaction.token.sequence, entities: Set(records.map(\.entity))))
        }
        return breaks
    }
}
