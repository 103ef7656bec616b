import FoundationEssentials
import Glibc
import PersistentHistory
import TidingsSQLite

/// Opening stores from the command line.
enum Stores {
    /// Lends a store to write to; without an author as Tidings itself.
    static func writing<R>(
        _ path: String, author: String? = nil, options: HistoryStore.Options = HistoryStore.Options(),
        _ body: (HistoryStore) async throws -> R
    ) async throws -> R {
        let store = try await opening(path) {
            guard let author else { return try await HistoryStore.openAsOperator(path, options: options) }
            return try await HistoryStore.open(path, author: author, options: options)
        }
        return try await lending(store, body)
    }

    /// Lends a store to read from, opened without touching anything. Where that takes a writer first and this user may
    /// be it, it is opened as by one, so that somebody alone on a machine need not know.
    static func reading<R>(_ path: String, _ body: (HistoryStore) async throws -> R) async throws -> R {
        let store = try await opening(path) {
            do {
                return try await HistoryStore.openReadOnly(path)
            } catch let error as HistoryError where error.code == .storeUnavailable {
                guard access(path, W_OK) == 0 else { throw error }
                return try await HistoryStore.openAsOperator(path)
            }
        }
        return try await lending(store, body)
    }

    /// Opens a store. The library's remedies for one that is none are its own calls: here it is what can be typed.
    private static func opening(
        _ path: String, _ open: () async throws -> HistoryStore
    ) async throws -> HistoryStore {
        do {
            return try await open()
        } catch let error as HistoryError {
            switch error.code {
            case .invalidAuthor: throw UsageError("--author: \(error.message)")
            case .notAStore:
                throw CommandError(
                    "\(path) is a database but not a Tidings store: make it one with `tidings init DB`")
            case .cannotOpen where isMissing(path):
                throw CommandError(
                    "there is no file \(path): check the path, or create a store with `tidings init DB --create`")
            default: throw error
            }
        }
    }

    /// Whether nothing but the file itself is missing.
    private static func isMissing(_ path: String) -> Bool {
        access(path, F_OK) != 0 && errno == ENOENT && Database.exists(Database.directory(of: path))
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
