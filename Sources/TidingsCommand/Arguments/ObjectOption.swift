import PersistentHistory
import TidingsSQLite

/// Reads `--object ENTITY:KEY`. The command line has text only, and a key `5` may be a number or text: the object is
/// looked for under every key that the text can mean, and under every key that the table has had.
enum ObjectOption {
    /// An entity's name and the text of a key.
    struct Name: Sendable, Equatable {
        let entity: String
        let key: String

        init(_ text: String) throws(UsageError) {
            guard let colon = text.firstIndex(of: ":"), colon != text.startIndex else {
                throw UsageError("--object expects ENTITY:KEY, such as article:5, not \(text)")
            }
            entity = String(text[..<colon])
            key = String(text[text.index(after: colon)...])
        }
    }

    /// The identities that a name can mean in a store.
    static func objects(_ name: Name, in store: HistoryStore) async throws -> Set<HistoryObjectID> {
        let shapes = try await store.keyColumns(ofEntity: name.entity)
        guard !shapes.isEmpty else {
            throw CommandError(
                "\(store.path) does not track \(name.entity) and never did: `tidings info` lists what it tracks")
        }
        let keys = shapes.flatMap { columns in Self.keys(name.key, columns) }
        guard !keys.isEmpty else {
            let forms = shapes.map { $0.map { "\($0)=…" }.joined(separator: ",") }.sorted()
            throw UsageError(
                "--object expects \(name.entity):\(forms.joined(separator: " or ")), since the key has several columns")
        }
        return Set(keys.map { HistoryObjectID(storeID: store.storeID, entity: name.entity, key: $0) })
    }

    /// Every key of these columns that a text can mean; none where it does not name all of several columns.
    static func keys(_ text: String, _ columns: [String]) -> [HistoryValues] {
        var readings: [[String]] = columns.count == 1 ? [[text]] : []
        if let named = texts(text, columns) { readings.append(named) }
        return readings.flatMap { texts in
            var keys: [[SQLiteValue]] = [[]]
            for text in texts { keys = keys.flatMap { key in meanings(of: text).map { key + [$0] } } }
            return keys.map { values in
                HistoryValues(zip(columns, values).map { (column: $0, value: $1) })
            }
        }
    }

    /// Reads `a=1,b=x` as the values of the columns in their order. A comma that no column's name follows belongs to
    /// the value before it.
    private static func texts(_ text: String, _ columns: [String]) -> [String]? {
        var found: [String: String] = [:]
        var rest = text[...]
        while let column = columns.first(where: { rest.hasPrefix($0 + "=") }), found[column] == nil {
            let value = rest.dropFirst(column.count + 1)
            let ends = columns.filter { found[$0] == nil && $0 != column }
                .compactMap { value.firstRange(of: ",\($0)=")?.lowerBound }
            let end = ends.min() ?? value.endIndex
            found[column] = String(value[..<end])
            rest = value[end...].dropFirst()
        }
        let texts = columns.compactMap { found[$0] }
        return texts.count == columns.count && rest.isEmpty ? texts : nil
    }

    private static func meanings(of text: String) -> [SQLiteValue] {
        var meanings: [SQLiteValue] = [.text(text)]
        if let number = Int64(text) { meanings.append(.integer(number)) }
        if let number = Double(text), !number.isNaN { meanings.append(.real(number)) }
        if text == "NULL" { meanings.append(.null) }
        if let bytes = bytes(text) { meanings.append(.blob(bytes)) }
        return meanings
    }

    /// The bytes of a literal such as `x'00ff'`.
    private static func bytes(_ text: String) -> [UInt8]? {
        guard text.lowercased().hasPrefix("x'"), text.hasSuffix("'"), text.utf8.count % 2 == 1 else { return nil }
        let digits = Array(text.utf8.dropFirst(2).dropLast())
        var bytes: [UInt8] = []
        for start in stride(from: 0, to: digits.count, by: 2) {
            guard let byte = UInt8(String(decoding: digits[start...start + 1], as: UTF8.self), radix: 16) else {
                return nil
            }
            bytes.append(byte)
        }
        return bytes
    }
}
