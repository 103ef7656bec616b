/// Histories of any length, faster than by writing them.
enum SyntheticHistory {
    /// Repeats the newest transaction of a store.
    static func lengthen(_ path: String, by count: Int) throws {
        let database = try RawDatabase(path, synchronous: "OFF")
        let newest = try database.integer("SELECT max(sequence) FROM history_transaction")
        try database.execute(
            """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(count))
            INSERT INTO history_transaction(
                sequence, nonce, time, author, context, origin, entities, change_count, chunk_count, changes)
            SELECT sequence + i, random(), time + i, author, context, origin, entities, change_count, chunk_count, changes
            FROM n CROSS JOIN history_transaction WHERE sequence = \(newest)
            """)
        try database.checkpoint()
    }
}
