import PersistentHistory
import TidingsSQLite
import Testing
import FoundationEssentials

@Test func smoke() async throws {
    let path = "/tmp/smoke-\(UUID()).db"
    let store = try await HistoryStore.open(path, author: "orders", create: true)
    try await store.migrate { db in
        try db.execute("CREATE TABLE article(id INTEGER PRIMARY KEY, title TEXT, score REAL)")
    }
    try await store.track(.all)
    let r = try await store.write(context: "import") { db in
        try db.execute("INSERT INTO article(title, score) VALUES (?, ?)", "Hello", 1.0)
        try db.execute("UPDATE article SET title = ?", "Bye")
        #expect(db.lastInsertedRowID == 1)
        try db.execute("SAVEPOINT a; INSERT INTO article(title) VALUES ('x'); ROLLBACK TO a")
        return db.changes
    }
    print(r)
    try await store.write { try $0.execute("DELETE FROM article") }
    for try await t in store.history() {
        print(t.token, t.author, t.contextName ?? "-", t.origin, t.time, t.entities, t.changeCount, try await t.schemaChanges())
        for try await c in t.changes { print("  ", c.decoded()) }
    }
    print(try await store.deleteHistory(before: .date(Date(timeIntervalSinceNow: 100))))
    let z = try await store.write { try $0.execute("INSERT INTO article(title) VALUES ('n')") }
    print(z.token!.sequence)
    await store.close()
}
