import LocalContexts
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

@testable import HistoryMessaging

@Suite("Consumer's reloads at breaks", .timeLimit(.minutes(2)))
struct ConsumerReloadTests {
    @Test(
        "P21: an entity whose tracking begins while the consumer runs is loaded, that one only, and merged from there")
    func tracked() async throws {
        let fixture = try await ConsumerFixture()
        let store = fixture.store
        try await store.migrate { db in
            try db.execute("CREATE TABLE late(id INTEGER PRIMARY KEY, v INTEGER)")
            try db.execute("INSERT INTO late(v) VALUES (1), (2), (3)")
        }
        let mirror = MirrorContext()
        let consumer = HistoryConsumer(store, name: "c", contexts: [mirror], options: fixture.options())
        try await withServices(consumer) {
            try await consumer.waitUntilCaughtUp(to: fixture.insert())
            try await store.track(["late"])
            try await fixture.temporary.write("UPDATE late SET v = v + 10 WHERE id = 2; INSERT INTO late(v) VALUES (4)")
            try await consumer.waitUntilCaughtUp(to: fixture.insert())
        }
        #expect(mirror.wholeLoads == 1)
        #expect(mirror.loads.last == ["late"])
        for entity in ["late", "article"] {
            #expect(try await mirror.rows(of: entity) == MirrorContext.rows(of: entity, in: store))
        }
        #expect(consumer.status().counts.reloads == 1)
    }

    @Test("P21: a break met far behind the head: what the reload brought is not merged again, everything else is")
    func farBehind() async throws {
        let fixture = try await ConsumerFixture()
        let store = fixture.store
        let projection = try ProjectionContext(fixture.temporary.directory.file("projection.db"), name: "projection")
        let mirror = MirrorContext()
        let consumer = HistoryConsumer(
            store, name: "c", contexts: [projection, mirror], options: fixture.options { $0.pageSize = 5 })
        try await withServices(consumer) { try await consumer.waitUntilCaughtUp(to: fixture.insert()) }
        try await fixture.insert(3)
        try await store.migrate { db in
            try db.execute("CREATE TABLE late(id INTEGER PRIMARY KEY, v INTEGER)")
            try db.execute("INSERT INTO late(v) VALUES (1), (2), (3)")
        }
        try await store.track(["late"])
        for number in 0..<20 {
            try await fixture.insert()
            try await store.write { db in
                try db.execute("INSERT INTO late(v) VALUES (?)", number)
                try db.execute("UPDATE late SET v = v + 1 WHERE id % 3 = ?", number % 3)
                try db.execute("DELETE FROM late WHERE id = ?", number)
                try db.execute("INSERT INTO note(text) VALUES (?)", "note \(number)")
            }
        }
        try await withServices(consumer) { try await consumer.waitUntilCaughtUp(to: store.currentToken()) }
        for entity in ["late", "article", "note"] {
            #expect(try await mirror.rows(of: entity) == MirrorContext.rows(of: entity, in: store))
        }
        let rows = try await Self.rows(of: fixture.temporary.directory.file("projection.db"))
        #expect(try await rows == Self.rows(of: fixture.temporary.path))
        #expect(consumer.status().counts.failures == 0)
        #expect(consumer.status().counts.resyncs == 0)
    }

    @Test("A break by an author who is not merged is met all the same")
    func breakOfOthers() async throws {
        let fixture = try await ConsumerFixture()
        let store = fixture.store
        let mirror = MirrorContext()
        let consumer = HistoryConsumer(
            store, name: "c", contexts: [mirror], options: fixture.options { $0.excludingAuthors = ["migrator"] })
        let migrator = try await fixture.author("migrator")
        try await withServices(consumer) {
            try await consumer.waitUntilCaughtUp(to: fixture.insert())
            try await migrator.migrate { db in
                try db.execute("CREATE TABLE late(id INTEGER PRIMARY KEY, v INTEGER)")
                try db.execute("INSERT INTO late(v) VALUES (1), (2), (3)")
            }
            try await migrator.track(["late"])
            try await fixture.temporary.write("INSERT INTO late(v) VALUES (4)")
            try await consumer.waitUntilCaughtUp(to: store.currentToken())
        }
        #expect(try await mirror.rows(of: "late") == MirrorContext.rows(of: "late", in: store))
        #expect(mirror.loads.last == ["late"])
    }

    @Test("A durable context that a crash left behind what a reload brought is loaded as a whole, once")
    func crashedReload() async throws {
        let fixture = try await ConsumerFixture()
        let context = DurableMirror()
        func run() async throws -> Int {
            let consumer = HistoryConsumer(
                fixture.store, name: "c", contexts: [context], options: fixture.options())
            try await withServices(consumer) { try await consumer.waitUntilCaughtUp(to: fixture.insert()) }
            #expect(consumer.status().counts.resyncs == 0)
            return context.mirror.wholeLoads
        }
        #expect(try await run() == 1)
        #expect(try await run() == 1)
        // As it is left by a crash between the reload of an entity and the merge of what its rows held already.
        let token = try #require(try await context.durableToken())
        let (file, _) = try await TokenFile.open(directory: "\(fixture.temporary.path)-tokens", consumer: "c")
        try await file.write(StoredToken(token: token, reloadedThrough: token.sequence + 1))
        await file.close()
        #expect(try await run() == 2)
        #expect(try await run() == 2)
        #expect(
            try await context.mirror.rows(of: "article") == MirrorContext.rows(of: "article", in: fixture.store))
    }

    /// A mirror that knows its token.
    private final class DurableMirror: MergeContext {
        let name = "durable"
        let isDurable = true
        let canLoad = true
        let mirror = MirrorContext()
        private let token = Locked<HistoryToken?>(nil)

        func durableToken() async throws -> HistoryToken? { token.withLock { $0 } }

        func load(_ snapshot: HistorySnapshot) async throws {
            try await mirror.load(snapshot)
            token.withLock { $0 = snapshot.token }
        }

        func merge(_ batch: HistoryBatch) async throws {
            try await mirror.merge(batch)
            token.withLock { $0 = batch.token }
        }
    }

    /// Rows of a file's tables, as text.
    private static func rows(of path: String) async throws -> [String] {
        let connection = try await SQLiteConnection.open(path)
        let rows = try await connection.run { db in
            try db.query("SELECT id || ' ' || v FROM late ORDER BY id") { try $0.get(0, as: String.self) }
                + db.query("SELECT id || ' ' || text FROM note ORDER BY id") { try $0.get(0, as: String.self) }
                + db.query("SELECT id || ' ' || title FROM article ORDER BY id") { try $0.get(0, as: String.self) }
        }
        await connection.close()
        return rows
    }
}
