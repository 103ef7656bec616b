import FoundationEssentials
import LocalContexts
import PersistentHistory
import TidingsSQLite

/// What came of comparing one consumer's view with the store.
struct DemoProof: Sendable {
    let rows: Int
    /// Rows that are missing, too many or different.
    let differences: Int

    /// Compares a database that a consumer kept in step.
    static func database(_ path: String, _ store: HistoryStore, entities: Set<String>?) async throws -> DemoProof {
        let difference = try await ProjectionContext.difference(from: store, path: path, entities: entities)
        let counts = difference.entities.values
        return DemoProof(
            rows: counts.map(\.rows).reduce(0, +),
            differences: counts.map { $0.missing + $0.extra + $0.different }.reduce(0, +))
    }

    /// Replays the lines that a consumer wrote, and compares the rows that come out.
    static func lines(_ path: String, _ store: HistoryStore) async throws -> DemoProof {
        let replayed = try DemoReplay(path).rows
        let stored = try await store.withSnapshot { snapshot in
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
            return rows
        }
        let differences = Set(stored.keys).union(replayed.keys).count { stored[$0] != replayed[$0] }
        return DemoProof(rows: stored.count, differences: differences)
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
        struct Change: Decodable {
            let entity: String
            let op: String
            let key: [String: String]
            let after: [String: String?]?
        }

        let changes: [Change]
    }

    private(set) var rows: [Object: [String: String?]] = [:]

    init(_ path: String) throws {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw CommandError("\(path) cannot be read: the consumer has not written it")
        }
        let decoder = JSONDecoder()
        for (number, bytes) in data.split(separator: 0x0A).enumerated() {
            guard let line = try? decoder.decode(Line.self, from: Data(bytes)) else {
                throw CommandError("\(path): line \(number + 1) is no transaction")
            }
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
