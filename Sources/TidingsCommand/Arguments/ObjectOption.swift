import PersistentHistory
import TidingsSQLite

/// Reads `--object ENTITY:KEY`. The command line has text only, and a key `5` may be a number or text: the object is
/// looked for under every key that the text can mean, and under every key that the table has had. What certainly means
/// no key is refused.
struct ObjectOption: Sendable {
    /// An entity's name and the text of a key.
    struct Name: Sendable, Equatable {
        let entity: String
        let key: String
    }

    /// What was given.
    let text: String

    init(_ text: String) throws(UsageError) {
        guard text.utf8.dropFirst().contains(UInt8(ascii: ":")) else {
            throw UsageError("--object expects ENTITY:KEY, such as article:5, not \(text)")
        }
        self.text = text
    }

    /// Every way to part the text into a name and a key, the longest name first: both may hold colons.
    var names: [Name] {
        let bytes = text.utf8
        return bytes.indices.dropFirst().reversed().filter { bytes[$0] == UInt8(ascii: ":") }.map { colon in
            Name(entity: String(text[..<colon]), key: String(text[bytes.index(after: colon)...]))
        }
    }

    /// The identities that the text can mean in a store.
    func objects(in store: HistoryStore) async throws -> Set<HistoryObjectID> {
        let keys = try await store.entityKeys()
        for name in names {
            let shapes = keys.filter { TableInspector.isSameName($0.entity, name.entity) }
            if !shapes.isEmpty { return try objects(name.key, shapes, store) }
        }
        let tried = names.reversed().map(\.entity).joined(separator: " or ")
        throw CommandError("\(store.path) does not track \(tried) and never did: `tidings info` lists what it tracks")
    }

    private func objects(
        _ key: String, _ shapes: Set<EntityKey>, _ store: HistoryStore
    ) throws(UsageError) -> Set<HistoryObjectID> {
        var objects: Set<HistoryObjectID> = []
        for shape in shapes {
            for values in Self.keys(key, shape) {
                objects.insert(HistoryObjectID(storeID: store.storeID, entity: shape.entity, key: values))
            }
        }
        guard objects.isEmpty else { return objects }
        let reason =
            shapes.contains(where: \.isRowID) ? "where N is a whole number" : "since the key has several columns"
        let forms = Set(shapes.map(Self.form)).sorted().joined(separator: " or ")
        throw UsageError("--object expects \(forms), \(reason), not \(text)")
    }

    /// How to write a key, as a usage error says it.
    private static func form(_ shape: EntityKey) -> String {
        let key = shape.isRowID ? "N" : shape.columns.map { "\($0)=…" }.joined(separator: ",")
        return "\(shape.entity):\(key)"
    }

    /// Every key of this shape that a text can mean; none where it does not name all of several columns, or is no
    /// integer where only integers can be. A text key may be any text, also one that looks like `COLUMN=VALUE`.
    static func keys(_ text: String, _ shape: EntityKey) -> [HistoryValues] {
        let columns = shape.columns
        var readings: [[String]] = columns.count == 1 ? [[text]] : []
        if let named = texts(text, columns) { readings.append(named) }
        return readings.flatMap { texts in
            var keys: [[SQLiteValue]] = [[]]
            for text in texts {
                let meanings = shape.isRowID ? Int64(text).map { [.integer($0)] } ?? [] : meanings(of: text)
                keys = keys.flatMap { key in meanings.map { key + [$0] } }
            }
            return keys.map { values in
                HistoryValues(zip(columns, values).map { (column: $0, value: $1) })
            }
        }
    }

    /// Reads `a=1,b=x` as the values of the columns in their order, whatever the case of their names. A comma that no
    /// column's name follows belongs to the value before it.
    private static func texts(_ text: String, _ columns: [String]) -> [String]? {
        var found: [String: String] = [:]
        var rest = text.utf8[...]
        while let column = columns.first(where: { begins(rest, $0) }), found[column] == nil {
            let value = rest.dropFirst(column.utf8.count + 1)
            let others = columns.filter { found[$0] == nil && $0 != column }
            let end =
                value.indices.first { index in
                    value[index] == UInt8(ascii: ",")
                        && others.contains { begins(value[value.index(after: index)...], $0) }
                } ?? value.endIndex
            found[column] = String(Substring(value[..<end]))
            rest = value[end...].dropFirst()
        }
        let texts = columns.compactMap { found[$0] }
        return texts.count == columns.count && rest.isEmpty ? texts : nil
    }

    /// Whether a text begins with the name of a column and an equals sign.
    private static func begins(_ text: Substring.UTF8View, _ column: String) -> Bool {
        let name = text.prefix(column.utf8.count)
        return text.dropFirst(column.utf8.count).first == UInt8(ascii: "=")
            && TableInspector.isSameName(String(decoding: name, as: UTF8.self), column)
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
