import Foundation
import PersistentHistory
import TidingsSQLite

/// The other process in tests: `TestWriter <mode> <store> <arguments>`.
@main
struct TestWriter {
    static func main() async throws {
        let arguments = Array(CommandLine.arguments.dropFirst())
        guard arguments.count >= 2 else { exit(2) }
        let rest = Array(arguments.dropFirst(2))
        switch arguments[0] {
        case "endless": try await writeEndlessly(arguments[1], seed: UInt64(rest[0]) ?? 0)
        case "contend":
            try await contend(arguments[1], author: rest[0], seconds: Double(rest[1]) ?? 1, full: rest[2] == "FULL")
        case "read": try await measureReading(arguments[1])
        case "memory":
            try await measureMemory(arguments[1], isTracked: rest[0] == "tracked", rows: Int(rest[1]) ?? 0, rest[2])
        case "token": try await printToken(arguments[1])
        case "fill": try await fill(arguments[1])
        case "hold": try await holdLock(arguments[1])
        default: exit(2)
        }
    }

    /// Writes transaction after transaction and prints each token once it is handed out, until it is killed.
    private static func writeEndlessly(_ path: String, seed: UInt64) async throws {
        var options = HistoryStore.Options()
        options.spillThreshold = 2000
        let store = try await HistoryStore.open(path, author: "crasher", options: options)
        var number = Int(seed % 1_000_000)
        while true {
            let base = number
            // Now and then one that spills and is written in chunks.
            let rows = base % 7 == 0 ? 60 : 1 + base % 3
            let result = try await store.write { db in
                for row in 0..<rows {
                    try db.execute(
                        "INSERT INTO item(v, t) VALUES (?, ?)", base + row,
                        "text of \(base), long enough to fill a page")
                }
                try db.execute("UPDATE item SET v = v + 1 WHERE id % 11 = ?", base % 11)
                try db.execute("DELETE FROM item WHERE id % 13 = ? AND id < (SELECT max(id) FROM item) - 80", base % 13)
                try db.execute("INSERT INTO total(id, n) VALUES (1, 1) ON CONFLICT DO UPDATE SET n = n + 1")
            }
            if let token = result.token { emit(token.description) }
            number += 1
        }
    }

    /// Writes one-row transactions for a time, then prints how many, the longest wait and each sequence.
    private static func contend(_ path: String, author: String, seconds: Double, full: Bool) async throws {
        var options = HistoryStore.Options()
        options.synchronous = full ? .full : .normal
        let store = try await HistoryStore.open(path, author: author, options: options)
        emit("ready")
        // All start together when the parent lets them.
        _ = readLine()
        let clock = ContinuousClock()
        let end = clock.now + .seconds(seconds)
        var sequences: [Int64] = []
        var longest = Duration.zero
        while clock.now < end {
            let start = clock.now
            let number = sequences.count
            let token = try await store.write { db in
                try db.execute("INSERT INTO item(v, t) VALUES (?, ?)", number, author)
            }.token
            longest = max(longest, clock.now - start)
            if let token { sequences.append(token.sequence) }
        }
        emit("\(sequences.count) \(longest / .milliseconds(1))")
        emit(sequences.map(String.init).joined(separator: " "))
        await store.close()
    }

    /// Runs one large transaction and prints the peak of resident memory in KiB before and after it.
    private static func measureMemory(_ path: String, isTracked: Bool, rows: Int, _ operation: String) async throws {
        let store = try await HistoryStore.open(path, author: "memory", create: true)
        try await store.migrate { db in
            try db.execute("CREATE TABLE IF NOT EXISTS item(id INTEGER PRIMARY KEY, v INTEGER, t TEXT)")
        }
        if isTracked { try await store.track(["item"]) }
        let insert = """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(rows))
            INSERT INTO item(v, t) SELECT i, 'row number ' || i FROM n
            """
        let sql =
            switch operation {
            case "insert": insert
            case "update": "UPDATE item SET v = v + 1"
            default: "DELETE FROM item WHERE id > 0"
            }
        let before = try peakMemory()
        let result = try await store.write { db in
            try db.execute(sql)
            return db.changes
        }
        emit("\(before) \(try peakMemory()) \(result.value) \(result.token?.sequence ?? 0)")
        await store.close()
    }

    /// Reads all of the newest transaction and prints the peak of resident memory in KiB before and after it.
    private static func measureReading(_ path: String) async throws {
        let store = try await HistoryStore.openReadOnly(path)
        _ = try await store.count()
        let before = try peakMemory()
        var count = 0
        var request = HistoryRequest()
        request.order = .newestFirst
        request.limit = 1
        for try await transaction in store.history(request) {
            for try await change in transaction.changes where change.decoded().key["id"] != nil { count += 1 }
        }
        emit("\(before) \(try peakMemory()) \(count)")
        await store.close()
    }

    /// The peak of resident memory in KiB, from proc(5).
    private static func peakMemory() throws -> Int {
        let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") } ?? ""
        return line.split(whereSeparator: { !$0.isNumber }).first.flatMap { Int($0) } ?? 0
    }

    private static func printToken(_ path: String) async throws {
        let store = try await HistoryStore.openReadOnly(path)
        let data = try JSONEncoder().encode(try await store.currentToken())
        emit(String(decoding: data, as: UTF8.self))
    }

    /// Writes until the kernel refuses, then deletes, and writes again.
    private static func fill(_ path: String) async throws {
        let store = try await HistoryStore.open(path, author: "filler", create: true)
        try await store.migrate { db in try db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v)") }
        try await store.track(.all)
        var written = 0
        do {
            while written < 1000 {
                try await store.write { db in try db.execute("INSERT INTO t(v) VALUES (zeroblob(10000))") }
                written += 1
            }
        } catch {
            // One transaction is that of the tracking.
            guard try await store.count() == written + 1 else { exit(3) }
            emit("failed clearly")
        }
        // A checkpoint frees the log; its own writes are inside the limit.
        try await SQLiteConnection.open(path).run { db in try db.execute("PRAGMA wal_checkpoint(TRUNCATE)") }
        try await store.write { db in try db.execute("INSERT INTO t(v) VALUES (1)") }
        emit("written again")
        await store.close()
    }

    /// Holds the write lock until it is told to let go.
    private static func holdLock(_ path: String) async throws {
        let connection = try await SQLiteConnection.open(path)
        try await connection.run { db in
            try db.transaction {
                emit("locked")
                _ = readLine()
            }
        }
    }

    private static func emit(_ line: String) {
        FileHandle.standardOutput.write(Data((line + "\n").utf8))
    }
}
