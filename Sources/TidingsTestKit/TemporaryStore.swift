public import PersistentHistory
internal import TidingsSQLite

/// A store in a directory of its own, removed when the object goes.
public final class TemporaryStore: Sendable {
    /// The directory.
    public let directory: TemporaryDirectory
    /// The path of the store's file.
    public let path: String
    /// The store.
    public let store: HistoryStore

    /// Makes a store, runs `schema` in it and tracks all its tables, unless told otherwise.
    public init(
        author: String = "orders", schema: String = "", tracking tables: HistoryStore.Tables? = .all,
        options: HistoryStore.Options = HistoryStore.Options(),
        tracked trackingOptions: TrackingOptions = TrackingOptions()
    ) async throws {
        directory = try TemporaryDirectory()
        path = directory.file("store.db")
        store = try await HistoryStore.open(path, author: author, create: true, options: options)
        try await store.migrate { db in try db.execute(schema) }
        if let tables { try await store.track(tables, options: trackingOptions) }
    }

    /// Runs SQL in one tracked transaction and returns its token.
    @discardableResult
    public func write(_ sql: String, context: String? = nil) async throws -> HistoryToken? {
        try await store.write(context: context) { db in try db.execute(sql) }.token
    }

    /// The changes of the newest transaction, decoded.
    public func latestChanges() async throws -> [DecodedChange] {
        try await store.transaction(store.currentToken().sequence)?.changes.all().map { $0.decoded() } ?? []
    }

    /// Every transaction that a request delivers.
    public func transactions(_ request: HistoryRequest = HistoryRequest()) async throws -> [HistoryTransaction] {
        var all: [HistoryTransaction] = []
        for try await transaction in store.history(request) { all.append(transaction) }
        return all
    }

    /// The sequences of the transactions that a request delivers.
    public func sequences(_ request: HistoryRequest = HistoryRequest()) async throws -> [Int64] {
        try await transactions(request).map(\.token.sequence)
    }
}
