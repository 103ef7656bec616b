import FoundationEssentials
import LocalContexts
import PersistentHistory
import TidingsSQLite

/// What came of comparing one consumer's view with the store.
struct DemoProof: Sendable, Equatable {
    /// The store's rows that were compared.
    let rows: Int
    /// What differs, each once, in words: rows by their entity, or transactions.
    let differing: [String]

    /// How many rows, or transactions, differ.
    var differences: Int { differing.count }

    /// Compares a database that a consumer kept in step.
    static func database(_ path: String, _ store: HistoryStore, entities: Set<String>?) async throws -> DemoProof {
        let difference = try await ProjectionContext.difference(from: store, path: path, entities: entities)
        let differing = difference.entities.sorted { $0.key < $1.key }.flatMap { entity, counts in
            [("is missing", counts.missing), ("is too many", counts.extra), ("is different", counts.different)]
                .flatMap { words, count in [String](repeating: "a row of \(entity) \(words)", count: count) }
        }
        return DemoProof(rows: difference.entities.values.map(\.rows).reduce(0, +), differing: differing)
    }

    /// Replays the lines that a consumer wrote, and compares the rows that come out. Where a transaction has not exactly one
    /// line, in its place, that is the difference: what it does to rows would only tell it again.
    static func lines(_ path: String, _ store: HistoryStore) async throws -> DemoProof {
        let replay = try DemoReplay(path)
        let (stored, head) = try await store.withSnapshot { snapshot in
            var rows: [DemoReplay.Object: [String: String?]] = [:]
            for entity in snapshot.entities {
                for try await page in snapshot.rows(of: entity) {
                    for row in page {
                        let key = entity.keyColumns.map { text(row[$0]) ?? "" }.joined(separator: "\u{1F}")
                        let values = row.map { ($0.column, text($0.value)) }
                        rows[DemoReplay.Object(entity: entity.name, key: key)] = Dictionary(
                            uniqueKeysWithValues: values)
                    }
                }
            }
            return (rows, snapshot.token.sequence)
        }
        var differing = misplaced(replay.sequences, upTo: head)
        if differing.isEmpty {
            let objects = Set(stored.keys).union(replay.rows.keys).filter { stored[$0] != replay.rows[$0] }
            differing = objects.map { "a row of \($0.entity) is different: \($0.key)" }.sorted()
        }
        return DemoProof(rows: stored.count, differing: differing)
    }

    /// The transactions that have no line, more than one, or one in the wrong place. All have one: consumers of lines begin at
    /// the beginning, and nothing was purged that they had not merged.
    static func misplaced(_ sequences: [Int64], upTo head: Int64) -> [String] {
        var seen: Set<Int64> = []
        var last: Int64 = 0
        var differing: [String] = []
        for sequence in sequences {
            if !seen.insert(sequence).inserted {
                differing.append("transaction \(sequence) comes again")
            } else if sequence < last || sequence > head {
                differing.append("transaction \(sequence) is out of place")
            }
            last = max(last, sequence)
        }
        for sequence in 1..<(head + 1) where !seen.contains(sequence) {
            differing.append("transaction \(sequence) is missing")
        }
        return differing
    }

    /// Everything in the demo's tables is text or NULL.
    private static func text(_ value: SQLiteValue?) -> String? {
        if case .text(let text)? = value { text } else { nil }
    }
}

/// Rows, made of the lines that `tidings consume --json` wrote.
struct DemoReplay {
    struct Object: Hashable, Sendable {
        let entity: String
        let key: String
    }

    private struct Line: Decodable {
        struct Token: Decodable {
            let sequence: Int64
        }

        struct Change: Decodable {
            let entity: String
            let op: String
            let key: [String: String]
            let after: [String: String?]?
        }

        let token: Token
        let changes: [Change]
    }

    private(set) var rows: [Object: [String: String?]] = [:]
    /// The transactions, in the order of their lines.
    private(set) var sequences: [Int64] = []

    init(_ path: String) throws {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw CommandError("\(path) cannot be read: the consumer has not written it")
        }
        let decoder = JSONDecoder()
        for (number, bytes) in data.split(separator: 0x0A).enumerated() {
            guard let line = try? decoder.decode(Line.self, from: Data(bytes)) else {
                throw CommandError("\(path): line \(number + 1) is no transaction")
            }
            sequences.append(line.token.sequence)
            for change in line.changes { apply(change) }
        }
    }

    /// The keys have one column each.
    private mutating func apply(_ change: Line.Change) {
        let object = Object(entity: change.entity, key: change.key.values.joined())
        switch change.op {
        case "insert": rows[object] = change.after
        case "update": rows[object]?.merge(change.after ?? [:]) { $1 }
        default: rows[object] = nil
        }
    }
}
