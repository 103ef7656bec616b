import Foundation
import LocalContexts
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

/// Projections whose list of entities is another one than before.
@Suite("Projection with another list of entities", .timeLimit(.minutes(3)))
struct ProjectionScopeTests {
    private static let schema = """
        CREATE TABLE a(id INTEGER PRIMARY KEY, v);
        CREATE TABLE b(id INTEGER PRIMARY KEY, v);
        CREATE TABLE c(id INTEGER PRIMARY KEY, v);
        """

    private struct Fixture {
        let temporary: TemporaryStore
        let path: String
        var store: HistoryStore { temporary.store }

        init(_ entities: Set<String>?) async throws {
            temporary = try await TemporaryStore(schema: ProjectionScopeTests.schema)
            path = temporary.directory.file("p.db")
            for table in ["a", "b", "c"] {
                try await temporary.write("INSERT INTO \(table) VALUES (1, '\(table)'), (2, '\(table)')")
            }
            let projection = try ProjectionContext(path, entities: entities)
            try await store.merge(into: projection)
            await projection.close()
        }

        func tables() async throws -> [[SQLiteValue]] {
            try await rows(
                path,
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'projection_%' ORDER BY name")
        }

        func expectEqual(_ entities: Set<String>?, at location: SourceLocation = #_sourceLocation) async throws {
            let difference = try await ProjectionContext.difference(from: store, path: path, entities: entities)
            #expect(difference.isEmpty, "\(difference)", sourceLocation: location)
        }
    }

    @Test(
        "where the list has grown, or has become all, the token is gone until the projection is loaded anew",
        arguments: [["a", "B"], ["b"], nil] as [Set<String>?])
    func grown(_ entities: Set<String>?) async throws {
        let fixture = try await Fixture(["a"])
        try await fixture.temporary.write("UPDATE a SET v = 'n'; UPDATE b SET v = 'n' WHERE id = 2")
        let projection = try ProjectionContext(fixture.path, entities: entities)
        #expect(try await projection.durableToken() == nil)
        let batch = try await fixture.store.batch()
        await expectCode(.invalidRequest) { try await projection.merge(batch) }
        await expectCode(.invalidRequest) {
            try await fixture.store.withSnapshot(of: ["b"]) { try await projection.load($0) }
        }
        try await fixture.store.withSnapshot { try await projection.load($0) }
        #expect(try await projection.durableToken() == (try await fixture.store.currentToken()))
        try await fixture.expectEqual(entities)
        #expect(try await fixture.tables().count == entities?.count ?? 3)
        try await fixture.temporary.write("UPDATE b SET v = 'm'")
        try await fixture.store.merge(into: projection, after: projection.durableToken())
        try await fixture.expectEqual(entities)
    }

    @Test("one that has grown and is told to begin somewhere begins there, without what it had")
    func grownFromTheBeginning() async throws {
        let fixture = try await Fixture(["a"])
        let projection = try ProjectionContext(fixture.path, entities: ["a", "b"])
        #expect(try await projection.durableToken() == nil)
        let oldest = try await fixture.store.oldestToken()
        try await projection.merge(HistoryBatch([], through: oldest))
        #expect(try await fixture.tables().isEmpty)
        #expect(try await projection.durableToken() == oldest)
        try await fixture.store.merge(into: projection)
        try await fixture.expectEqual(["a", "b"])
    }

    @Test("where the list has shrunk, tables go and the token stays; one that comes back is loaded anew")
    func shrunk() async throws {
        let fixture = try await Fixture(nil)
        let head = try await fixture.store.currentToken()
        let less = try ProjectionContext(fixture.path, entities: ["A", "b"])
        #expect(try await less.durableToken() == head)
        #expect(try await fixture.tables() == [["a"], ["b"]])
        try await fixture.temporary.write("UPDATE a SET v = 'n'; UPDATE c SET v = 'n'")
        try await fixture.store.merge(into: less, after: head)
        try await fixture.expectEqual(["a", "b"])
        await less.close()
        let same = try ProjectionContext(fixture.path, entities: ["B", "a"])
        #expect(try await same.durableToken() == (try await fixture.store.currentToken()))
        await same.close()
        let more = try ProjectionContext(fixture.path)
        #expect(try await more.durableToken() == nil)
        await more.close()
        // Nothing was loaded: the shorter list is still the one of the file.
        let again = try ProjectionContext(fixture.path, entities: ["a"])
        #expect(try await again.durableToken() == (try await fixture.store.currentToken()))
        #expect(try await fixture.tables() == [["a"]])
    }

    @Test("a file of an earlier version, which says nothing of its list, is loaded anew")
    func unknown() async throws {
        let fixture = try await Fixture(nil)
        let connection = try await SQLiteConnection.open(fixture.path)
        try await connection.run { db in try db.execute("ALTER TABLE projection_token DROP COLUMN entities") }
        await connection.close()
        try await fixture.expectEqual(nil)
        let projection = try ProjectionContext(fixture.path)
        #expect(try await projection.durableToken() == nil)
        try await fixture.store.withSnapshot { try await projection.load($0) }
        #expect(try await projection.durableToken() == (try await fixture.store.currentToken()))
        try await fixture.expectEqual(nil)
    }
}
