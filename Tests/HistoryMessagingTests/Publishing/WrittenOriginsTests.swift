import HistoryMessaging
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("Written origins", .timeLimit(.minutes(3)))
struct WrittenOriginsTests {
    @Test("every origin that has written is known, once; one that wrote nothing is not")
    func known() async throws {
        let temporary = try await TemporaryStore(schema: PublishingFixture.schema)
        let store = temporary.store
        let (first, second) = (HistoryOrigin(), HistoryOrigin())
        for origin in [first, second, first, store.origin, second] {
            try await store.write(origin: origin) { db in try db.execute("INSERT INTO item(v) VALUES (1)") }
        }
        try await store.write(origin: HistoryOrigin()) { _ in }
        let origins = try await store.writtenOrigins()
        #expect(origins.all.count == 3)
        #expect(Set(origins.all) == [first, second, store.origin])
        // The same ones again change nothing.
        try await store.write(origin: first) { db in try db.execute("INSERT INTO item(v) VALUES (1)") }
        #expect(try await store.writtenOrigins().generation == origins.generation)
    }

    @Test("what has written nothing since is forgotten, and known again when it writes")
    func forgotten() async throws {
        let temporary = try await TemporaryStore(schema: PublishingFixture.schema)
        let store = temporary.store
        let (early, late) = (HistoryOrigin(), HistoryOrigin())
        let token = try await store.write(origin: early) { db in try db.execute("INSERT INTO item(v) VALUES (1)") }
            .token
        try await store.write(origin: late) { db in try db.execute("INSERT INTO item(v) VALUES (1)") }
        try await store.forgetOrigins(through: try #require(token).sequence, in: store.currentToken())
        let left = try await store.writtenOrigins()
        #expect(left.all == [late])
        try await store.write(origin: early) { db in try db.execute("INSERT INTO item(v) VALUES (1)") }
        let again = try await store.writtenOrigins()
        #expect(Set(again.all) == [early, late])
        #expect(again.generation > left.generation)
    }

    @Test("by a token of a history that was lost nobody is forgotten, by one that is purged everybody before it")
    func lost() async throws {
        let temporary = try await TemporaryStore(schema: PublishingFixture.schema)
        let store = temporary.store
        let token = try #require(try await temporary.write("INSERT INTO item(v) VALUES (1)"))
        let written = try await store.writtenOrigins()
        try await store.coordinate { db, _ in try db.execute("UPDATE history_store SET epoch = 2") }
        let error = await #expect(throws: HistoryError.self) {
            try await store.forgetOrigins(through: token.sequence, in: token)
        }
        #expect(error?.code == .tokenInvalid)
        #expect(try await store.writtenOrigins().all == written.all)
        let last = try await store.currentToken()
        let other = HistoryOrigin()
        try await store.write(origin: other) { db in try db.execute("INSERT INTO item(v) VALUES (1)") }
        try await store.deleteHistory(before: .sequence(last.sequence + 2))
        try await store.forgetOrigins(through: last.sequence, in: last)
        #expect(try await store.writtenOrigins().all == [other])
    }

    @Test("the token at the opening is that of the newest transaction then")
    func opening() async throws {
        let temporary = try await TemporaryStore(schema: PublishingFixture.schema)
        let token = try await temporary.write("INSERT INTO item(v) VALUES (1)")
        let again = try await HistoryStore.open(temporary.path, author: "again")
        #expect(again.openedAt == token)
        #expect(again.synchronous == .normal)
        await again.close()
    }
}
