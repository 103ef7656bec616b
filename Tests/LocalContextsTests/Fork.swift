import Foundation
import PersistentHistory
import TidingsSQLite
import TidingsTestKit

/// One history that went on in two ways: what a power loss, or an older copy put in its place, makes of a store.
struct Fork {
    private let temporary: TemporaryStore
    /// The history up to where the two are one.
    let common: HistoryToken
    /// Went on for three transactions, which were lost.
    let lost: HistoryStore
    /// Went on for four others: the store as it is now.
    let kept: HistoryStore

    init(common count: Int = 4) async throws {
        temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        for number in 0..<count { try await temporary.write("INSERT INTO t(v) VALUES ('common \(number)')") }
        common = try await temporary.store.currentToken()
        await temporary.store.close()
        for name in ["", "-wal"] {
            try FileManager.default.copyItem(
                atPath: temporary.path + name, toPath: temporary.directory.file("kept.db") + name)
        }
        lost = try await HistoryStore.open(temporary.path, author: "orders")
        for number in 0..<3 {
            try await lost.write { db in try db.execute("INSERT INTO t(v) VALUES ('lost \(number)')") }
        }
        kept = try await HistoryStore.open(temporary.directory.file("kept.db"), author: "orders")
        for number in 0..<4 {
            try await kept.write { db in try db.execute("INSERT INTO t(v) VALUES ('kept \(number)')") }
        }
    }

    /// A name for a file beside the stores.
    func file(_ name: String) -> String { temporary.directory.file(name) }
}
