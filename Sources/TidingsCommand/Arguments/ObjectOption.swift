import PersistentHistory
import TidingsSQLite

/// Reads `--object ENTITY:KEY`. The command line has text only, and a key `5` may be a number or text: the object is
/// looked for under every key that the text can mean.
enum ObjectOption {
    static func parse(_ text: String, _ store: HistoryStore) async throws -> Set<HistoryObjectID> {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2, !parts[0].isEmpty else {
            throw UsageError("--object expects ENTITY:KEY, such as article:5, not \(text)")
        }
        guard let entity = try await store.info().entities.first(where: { $0.name == parts[0] }) else {
            throw CommandError("\(store.path) does not track \(parts[0]): `tidings info` lists what it does")
        }
        let texts = try keyTexts(parts[1], entity)
        var keys: [[SQLiteValue]] = [[]]
        for text in texts { keys = keys.flatMap { key in meanings(of: text).map { key + [$0] } } }
        return Set(
            keys.map { values in
                let key = HistoryValues(zip(entity.keyColumns, values).map { (column: $0, value: $1) })
                return HistoryObjectID(storeID: store.storeID, entity: entity.name, key: key)
            })
    }

    /// The texts of the key's columns, in the key's order.
    private static func keyTexts(_ text: String, _ entity: HistoryStoreInfo.Entity) throws(UsageError) -> [String] {
        guard entity.keyColumns.count > 1 else { return [text] }
        var named: [String: String] = [:]
        for pair in text.split(separator: ",", omittingEmptySubsequences: false) {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            if parts.count == 2 { named[parts[0]] = parts[1] }
        }
        let texts = entity.keyColumns.compactMap { named[$0] }
        guard texts.count == entity.keyColumns.count, named.count == texts.count else {
            let form = entity.keyColumns.map { "\($0)=…" }.joined(separator: ",")
            throw UsageError("--object expects \(entity.name):\(form), since the key has several columns")
        }
        return texts
    }

    private static func meanings(of text: String) -> [SQLiteValue] {
        var meanings: [SQLiteValue] = [.text(text)]
        if let number = Int64(text) { meanings.append(.integer(number)) }
        if let number = Double(text) { meanings.append(.real(number)) }
        if text == "NULL" { meanings.append(.null) }
        return meanings
    }
}
