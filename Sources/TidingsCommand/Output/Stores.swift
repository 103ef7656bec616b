import FoundationEssentials
import Glibc
import PersistentHistory

/// Opening stores from the command line.
enum Stores {
    /// The author of what the tool itself does: tracking, purging.
    static let operatorName = "tidings"

    /// Lends a store to write to.
    static func writing<R>(
        _ path: String, author: String = operatorName, _ body: (HistoryStore) async throws -> R
    ) async throws -> R {
        try await lending(try await HistoryStore.open(path, author: author), body)
    }

    /// Lends a store to read from, opened without touching anything. Where that takes a writer first and this user may
    /// be it, it is opened as by one, so that somebody alone on a machine need not know.
    static func reading<R>(_ path: String, _ body: (HistoryStore) async throws -> R) async throws -> R {
        let store: HistoryStore
        do {
            store = try await HistoryStore.openReadOnly(path)
        } catch let error as HistoryError where error.code == .storeUnavailable {
            guard access(path, W_OK) == 0 else { throw error }
            store = try await HistoryStore.open(path, author: operatorName)
        }
        return try await lending(store, body)
    }

    /// Closes the store behind `body`, however that ends.
    static func lending<R>(_ store: HistoryStore, _ body: (HistoryStore) async throws -> R) async throws -> R {
        do {
            let result = try await body(store)
            await store.close()
            return result
        } catch {
            await store.close()
            throw error
        }
    }

    /// The transaction with a sequence, or an error that says why there is none.
    static func transaction(_ sequence: Int64, in store: HistoryStore) async throws -> HistoryTransaction {
        if let transaction = try await store.transaction(sequence) { return transaction }
        throw try await missing(sequence, in: store)
    }

    /// Why there is no transaction with a sequence.
    static func missing(_ sequence: Int64, in store: HistoryStore) async throws -> CommandError {
        let oldest = try await store.oldestToken().sequence
        let head = try await store.currentToken().sequence
        let reason =
            sequence <= oldest ? "it was purged: history begins at \(oldest + 1)" : "the newest is \(head)"
        return CommandError("\(store.path) has no transaction \(sequence): \(reason)")
    }
}
