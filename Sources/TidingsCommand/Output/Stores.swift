import Foundation
import PersistentHistory

/// Opening stores from the command line.
enum Stores {
    /// The author of what the tool itself does: tracking, purging.
    static let operatorName = "tidings"

    /// Opens for reading without touching anything; where that takes a writer first and this user may be it, opens
    /// as one, so that somebody alone on a machine need not know.
    static func openForReading(_ path: String) async throws -> HistoryStore {
        do {
            return try await HistoryStore.openReadOnly(path)
        } catch let error as HistoryError where error.code == .storeUnavailable {
            guard access(path, W_OK) == 0 else { throw error }
            return try await HistoryStore.open(path, author: operatorName)
        }
    }

    /// Whether the file is a store already, as far as can be told by opening it.
    static func isStore(_ path: String) async -> Bool {
        guard let store = try? await HistoryStore.open(path, author: operatorName) else { return false }
        await store.close()
        return true
    }

    /// The transaction with a sequence, or an error that says why there is none.
    static func transaction(_ sequence: Int64, in store: HistoryStore) async throws -> HistoryTransaction {
        if let transaction = try await store.transaction(sequence) { return transaction }
        let oldest = try await store.oldestToken().sequence
        let head = try await store.currentToken().sequence
        let reason =
            sequence <= oldest ? "it was purged: history begins at \(oldest + 1)" : "the newest is \(head)"
        throw CommandError("\(store.path) has no transaction \(sequence): \(reason)")
    }
}
