import Foundation
import TidingsSQLite
import TidingsTestKit

@testable import PersistentHistory

/// A golden file: what was written, how it was encoded, and what it decodes to.
///
/// Sections begin with `## `: `schema` and `write` are SQL, `options` is the JSON of the tracking options, `layouts`
/// has a layout a line (number, entity number, name, definition), `changes` is hexadecimal, `decoded` a change a line.
/// With `TIDINGS_WRITE_GOLDEN=1` the tests write the last three anew instead of comparing them.
struct GoldenFile {
    static let names = ["operations", "values", "keys", "options", "schema-records"]
    let name: String
    private(set) var sections: [String: String] = [:]
    private static let order = ["schema", "options", "write", "layouts", "changes", "decoded"]

    private var url: URL {
        URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Golden/\(name).golden")
    }

    init(_ name: String) throws {
        self.name = name
        var section = ""
        for line in try String(contentsOf: url, encoding: .utf8).split(
            separator: "\n", omittingEmptySubsequences: false)
        {
            if line.hasPrefix("## ") {
                section = String(line.dropFirst(3))
                sections[section] = ""
            } else if let text = sections[section] {
                sections[section] = text.isEmpty ? String(line) : text + "\n" + line
            }
        }
        sections = sections.mapValues { $0.trimmingCharacters(in: .newlines) }
    }

    var layouts: LayoutTable {
        get throws {
            var layouts: [Int64: HistoryLayout] = [:]
            for line in (sections["layouts"] ?? "").split(separator: "\n") {
                let parts = line.split(separator: "\t").map(String.init)
                let definition = try JSONDecoder().decode(HistoryLayout.Definition.self, from: Data(parts[3].utf8))
                let id = Int64(parts[0]) ?? 0
                layouts[id] = HistoryLayout(
                    id: id, entityID: Int64(parts[1]) ?? 0, entity: parts[2], definition: definition)
            }
            return LayoutTable(layouts)
        }
    }

    var bytes: [UInt8] {
        let digits = Array((sections["changes"] ?? "").utf8.filter { $0 != 0x0A && $0 != 0x20 })
        return stride(from: 0, to: digits.count - 1, by: 2).compactMap {
            UInt8(String(decoding: digits[$0...$0 + 1], as: UTF8.self), radix: 16)
        }
    }

    /// Writes the file's SQL to a new store, and gives the sections that follow from it.
    func written() async throws -> [String: String] {
        var options = TrackingOptions()
        if let text = sections["options"], !text.isEmpty {
            options = try JSONDecoder().decode(TrackingOptions.self, from: Data(text.utf8))
        }
        let temporary = try await TemporaryStore(schema: sections["schema"] ?? "", tracked: options)
        try await temporary.write(sections["write"] ?? "")
        let layouts = try await temporary.store.read { db in
            try db.query("SELECT layout, entity, name, definition FROM history_entity ORDER BY layout") { row in
                let numbers = "\(try row.get(0, as: Int64.self))\t\(try row.get(1, as: Int64.self))"
                return "\(numbers)\t\(try row.get(2, as: String.self))\t\(try row.get(3, as: String.self))"
            }
        }
        let bytes = try await temporary.store.read { db in
            try db.first("SELECT changes FROM history_transaction ORDER BY sequence DESC LIMIT 1", as: [UInt8].self)
                ?? []
        }
        return [
            "layouts": layouts.joined(separator: "\n"), "changes": Self.hexadecimal(bytes),
            "decoded": try Self.decode(bytes, try self.with(layouts).layouts).joined(separator: "\n"),
        ]
    }

    private func with(_ layouts: [String]) -> GoldenFile {
        var copy = self
        copy.sections["layouts"] = layouts.joined(separator: "\n")
        return copy
    }

    mutating func rewrite(_ written: [String: String]) throws {
        sections.merge(written) { $1 }
        let text = Self.order.map { "## \($0)\n\(sections[$0] ?? "")\n" }.joined()
        try text.write(to: url, atomically: true, encoding: .utf8)
    }

    private static func hexadecimal(_ bytes: [UInt8]) -> String {
        stride(from: 0, to: bytes.count, by: 32).map { start in
            bytes[start..<min(start + 32, bytes.count)].map {
                $0 < 16 ? "0" + String($0, radix: 16) : String($0, radix: 16)
            }
            .joined(separator: " ")
        }.joined(separator: "\n")
    }

    /// Decodes everything that encoded changes hold, schema records included.
    static func decode(_ bytes: [UInt8], _ layouts: LayoutTable) throws -> [String] {
        let context = ChangeContext(bytes: bytes, storeID: UUID(), layouts: layouts, filter: nil, source: nil)
        let changes = HistoryChanges(context: context, range: 0..<bytes.count, chunkCount: 0, sequence: 1, nonce: 0)
        var iterator = changes.makeAsyncIterator()
        var lines: [String] = []
        while let record = try iterator.nextRecord() {
            if record.kind.isSchemaRecord {
                let change = try iterator.schemaChange(record)
                lines.append("\(change.kind.rawValue) \(change.entity) \(change.columns) \(change.detail)")
            } else {
                let change = HistoryChange(
                    context: context, layout: record.layout, kind: record.kind, body: record.body..<record.end)
                lines.append(line(change.decoded()))
            }
        }
        return lines
    }

    private static func line(_ change: DecodedChange) -> String {
        func text(_ values: HistoryValues?) -> String {
            values.map { values in values.map { "\($0.column)=\($0.value)" }.description } ?? "nil"
        }
        return "\(change.operation) \(change.entity) key \(text(change.key)) new key \(text(change.newKey)) "
            + "changed \(change.changed) redacted \(change.redacted) before \(text(change.before)) after \(text(change.after))"
    }
}
