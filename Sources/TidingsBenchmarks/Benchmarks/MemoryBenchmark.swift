import Foundation
import PersistentHistory
import TidingsSQLite

/// The peak of memory of large transactions, each in a process of its own.
struct MemoryBenchmark {
    let options: BenchmarkOptions

    func run(_ directory: ScratchDirectory) async throws -> [Measurement] {
        var measurements = try measure(100_000, pairs: options.pairs, directory)
        // Minutes each, and hardly any spread: seven pairs are enough for an interval.
        if !options.isQuick { measurements += try measure(1_000_000, pairs: min(options.pairs, 7), directory) }
        return measurements
    }

    private func measure(_ rows: Int, pairs count: Int, _ directory: ScratchDirectory) throws -> [Measurement] {
        let full = directory.file("full.db")
        let empty = directory.file("empty.db")
        try RawArticles.create(full, rows: rows)
        try RawArticles.create(empty, rows: 0)
        defer { for file in [full, empty] { try? FileManager.default.removeItem(atPath: file) } }
        return try RowOperation.allCases.map { operation in
            var pairs = Pairs()
            for _ in 0..<count {
                let source = operation == .insert ? empty : full
                let floor = try MemoryProbe.peak(directory.copy(source, to: "probe.db"), false, operation, rows)
                let value = try MemoryProbe.peak(directory.copy(source, to: "probe.db"), true, operation, rows)
                pairs.add(floor: floor, value: value)
            }
            return pairs.measurement(
                "\(rows) rows, \(operation), peak memory over untracked", "MB", goal: 4, comparison: .difference)
        }
    }
}

/// The process that is measured: one large transaction through a store, tracked or not.
enum MemoryProbe {
    static let command = "memory-probe"

    /// Runs the probe in a child of this executable; the megabytes by which its peak grew in the transaction.
    static func peak(_ path: String, _ isTracked: Bool, _ operation: RowOperation, _ rows: Int) throws -> Double {
        let process = Process()
        process.executableURL = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
        process.arguments = [command, path, isTracked ? "tracked" : "untracked", operation.rawValue, "\(rows)"]
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard let value = Double(text.trimmingCharacters(in: .whitespacesAndNewlines)) else {
            throw BenchmarkError("the measured process failed")
        }
        return value
    }

    static func run(_ arguments: [String]) async throws {
        guard arguments.count == 4, let operation = RowOperation(rawValue: arguments[2]), let rows = Int(arguments[3])
        else { throw BenchmarkError("\(command) is not for users") }
        let store = try await HistoryStore.open(arguments[0], author: "benchmark", create: true)
        if arguments[1] == "tracked" { try await store.track(["article"]) }
        let before = try peakKilobytes()
        _ = try await store.writeRepeatedly(1, from: ArticleWorkload(rows: 0)) { database, workload in
            switch operation {
            case .insert:
                try database.withStatement(ArticleWorkload.insert) { statement in
                    for _ in 0..<rows {
                        workload.prepare(.insert)
                        try workload.insert(statement)
                    }
                }
            case .update: try database.execute("UPDATE article SET views = views + 1")
            case .delete: try database.execute("DELETE FROM article WHERE id > 0")
            }
        }
        print(Double(try peakKilobytes() - before) / 1024)
        await store.close()
    }

    /// The peak of resident memory, from proc(5).
    private static func peakKilobytes() throws -> Int {
        let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") } ?? ""
        return line.split(whereSeparator: { !$0.isNumber }).first.flatMap { Int($0) } ?? 0
    }
}
