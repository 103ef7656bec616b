import HistoryMessaging
import PersistentHistory
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

/// A SQLite file that counts, by transaction, how often it had an effect; with its token, in one transaction.
final class FileContext: MergeContext {
    let name: String
    let isDurable = true
    private let connection: SQLiteConnection
    private let isFailing = Locked(false)

    init(_ path: String, name: String = "file") async throws {
        self.name = name
        connection = try await SQLiteConnection.open(path, options: OpenOptions(access: .create))
        try await connection.run { db in
            try db.execute("CREATE TABLE IF NOT EXISTS effect(sequence INTEGER PRIMARY KEY, n INTEGER NOT NULL)")
            try db.execute("CREATE TABLE IF NOT EXISTS place(id INTEGER PRIMARY KEY, token TEXT)")
        }
    }

    struct Failure: Error, CustomStringConvertible { let description = "the file is not writable" }

    /// Throws at every merge until it is told otherwise.
    func fail(_ value: Bool) { isFailing.withLock { $0 = value } }

    struct Contents: Sendable {
        var effects: [Int64: Int]
        var token: String?
    }

    func contents() async throws -> Contents {
        try await connection.run { db in
            let rows = try db.query("SELECT sequence, n FROM effect") { row in
                (try row.get(0, as: Int64.self), try row.get(1, as: Int.self))
            }
            return Contents(
                effects: Dictionary(uniqueKeysWithValues: rows),
                token: try db.first("SELECT token FROM place", as: String.self))
        }
    }

    /// Puts an older state in place of the present one.
    func restore(_ contents: Contents) async throws {
        try await connection.run { db in
            try db.transaction {
                try db.execute("DELETE FROM effect")
                for (sequence, count) in contents.effects {
                    try db.execute("INSERT INTO effect VALUES (?, ?)", sequence, count)
                }
                try db.execute("INSERT OR REPLACE INTO place VALUES (1, ?)", contents.token)
            }
        }
    }

    func durableToken() async throws -> HistoryToken? {
        try await contents().token.flatMap { HistoryToken($0) }
    }

    func merge(_ batch: HistoryBatch) async throws {
        if isFailing.withLock({ $0 }) { throw Failure() }
        try await connection.run { db in
            try db.transaction {
                for transaction in batch.transactions {
                    try db.execute(
                        "INSERT INTO effect VALUES (?, 1) ON CONFLICT DO UPDATE SET n = n + 1",
                        transaction.token.sequence)
                }
                try db.execute("INSERT OR REPLACE INTO place VALUES (1, ?)", batch.token.description)
            }
        }
    }

    func close() async { await connection.close() }
}
