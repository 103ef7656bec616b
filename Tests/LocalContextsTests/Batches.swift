import Foundation
import LocalContexts
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

extension HistoryStore {
    /// The history after a token, as a consumer would give it to its contexts.
    func batch(after token: HistoryToken? = nil, pageSize: Int = 4000) async throws -> HistoryBatch {
        var request = HistoryRequest(after: token)
        request.pageSize = pageSize
        let fetch = try await fetch(request)
        return HistoryBatch(fetch.transactions, through: fetch.token)
    }

    /// Merges everything after a token in pages.
    @discardableResult
    func merge(
        into context: some MergeContext, after token: HistoryToken? = nil, pageSize: Int = 4000
    ) async throws -> HistoryToken {
        var request = HistoryRequest(after: token)
        request.pageSize = pageSize
        while true {
            let fetch = try await fetch(request)
            try await context.merge(HistoryBatch(fetch.transactions, through: fetch.token))
            if fetch.isAtEnd { return fetch.token }
            request.start = .token(fetch.token)
        }
    }
}

/// The rows that a query returns from a file of its own.
func rows(_ path: String, _ sql: String) async throws -> [[SQLiteValue]] {
    let connection = try await SQLiteConnection.open(path, options: OpenOptions(access: .readOnly))
    let rows = try await connection.run { db in try db.rows(sql) }
    await connection.close()
    return rows
}

/// Expects a history error of a code.
func expectCode(
    _ code: HistoryError.Code, at location: SourceLocation = #_sourceLocation, _ body: () async throws -> Void
) async {
    do {
        try await body()
        Issue.record("no error was thrown", sourceLocation: location)
    } catch {
        #expect((error as? HistoryError)?.code == code, "\(error)", sourceLocation: location)
    }
}
