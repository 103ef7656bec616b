import HistoryMessaging
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

@Suite("Consumer's hooks", .timeLimit(.minutes(2)))
struct ConsumerHookTests {
    /// Runs a consumer from now on, as long as a closure writes, and until everything is merged.
    private func merging(
        _ consumer: HistoryConsumer, _ fixture: ConsumerFixture, _ body: @escaping @Sendable () async throws -> Void
    ) async throws {
        try await withServices(consumer) {
            try await consumer.waitUntilCaughtUp(to: fixture.store.currentToken())
            try await body()
            try await consumer.waitUntilCaughtUp(to: fixture.store.currentToken())
        }
    }

    private func consumer(_ fixture: ConsumerFixture, _ contexts: [any MergeContext] = []) -> HistoryConsumer {
        HistoryConsumer(
            fixture.store, name: "c", contexts: contexts, options: fixture.options { $0.start = .now })
    }

    @Test("PHT18: five inserts are one call of five, three deletes one call of three tombstones")
    func groups() async throws {
        let fixture = try await ConsumerFixture()
        let consumer = consumer(fixture)
        let journal = Journal()
        await consumer.observe("article", .insert) { group in
            journal.add(
                "\(group.count) inserts of \(try await group.all().count) by \(group.author) at \(group.token.sequence)"
            )
        }
        await consumer.observe("article", .delete) { group in
            let tombstones = try await group.all().compactMap { $0.tombstone?["title"] }
            journal.add("\(group.count) deletes of \(tombstones)")
        }
        try await merging(consumer, fixture) {
            try await fixture.temporary.write(
                "INSERT INTO article(title) VALUES ('a'), ('b'), ('c'), ('d'), ('e')")
            try await fixture.temporary.write("DELETE FROM article WHERE id > 2")
        }
        let tombstones = ["c", "d", "e"].map { SQLiteValue.text($0) }
        #expect(journal.entries == ["5 inserts of 5 by orders at 2", "3 deletes of \(tombstones)"])
    }

    @Test("PHT18: entities, operations and transactions split; groups come in order of first appearance")
    func splitting() async throws {
        let fixture = try await ConsumerFixture()
        let consumer = consumer(fixture)
        let journal = Journal()
        for entity in ["article", "note"] {
            for operation in HistoryChange.Operation.allCases {
                await consumer.observe(entity, operation) { group in
                    journal.add("\(group.entity) \(group.operation) \(group.count)")
                }
            }
        }
        try await merging(consumer, fixture) {
            try await fixture.store.write { db in
                try db.execute("INSERT INTO note(text) VALUES ('x'), ('y')")
                try db.execute("INSERT INTO article(title) VALUES ('a')")
                try db.execute("INSERT INTO note(text) VALUES ('z')")
                try db.execute("UPDATE note SET text = 'w'")
                try db.execute("DELETE FROM article")
            }
            try await fixture.temporary.write("INSERT INTO note(text) VALUES ('v')")
            try await fixture.temporary.write("INSERT INTO note(text) VALUES ('u')")
        }
        #expect(
            journal.entries == [
                "note insert 3", "article insert 1", "note update 3", "article delete 1", "note insert 1",
                "note insert 1",
            ])
    }

    @Test("PHT18, PHT19: hooks of one key run in the order of registration; removing one of three leaves two")
    func removal() async throws {
        let fixture = try await ConsumerFixture()
        let consumer = consumer(fixture)
        let journal = Journal()
        var ids: [HookID] = []
        for name in ["a", "b", "c"] {
            ids.append(await consumer.observe("article", .insert) { _ in journal.add(name) })
        }
        await consumer.observe("note", .insert) { _ in journal.add("note") }
        try await merging(consumer, fixture) { [ids] in
            try await consumer.waitUntilCaughtUp(to: fixture.insert())
            #expect(journal.entries == ["a", "b", "c"])
            journal.clear()
            #expect(await consumer.removeObserver(ids[1]))
            #expect(await !consumer.removeObserver(ids[1]))
            try await consumer.waitUntilCaughtUp(to: fixture.insert())
            #expect(journal.entries == ["a", "c"])
            journal.clear()
            #expect(await consumer.removeObservers(of: "article", .insert))
            #expect(await !consumer.removeObservers(of: "article", .insert))
            try await fixture.insert()
            try await fixture.temporary.write("INSERT INTO note(text) VALUES ('n')")
            try await consumer.waitUntilCaughtUp(to: fixture.store.currentToken())
            #expect(journal.entries == ["note"])
            journal.clear()
            await consumer.removeAllObservers()
            try await fixture.temporary.write("INSERT INTO note(text) VALUES ('n')")
        }
        #expect(journal.entries == [])
    }

    @Test("PHT19: a hook that removes the next one while it runs is obeyed")
    func removalInside() async throws {
        let fixture = try await ConsumerFixture()
        let consumer = consumer(fixture)
        let journal = Journal()
        let second = Locked<HookID?>(nil)
        await consumer.observe("article", .insert) { _ in
            journal.add("first")
            if let id = second.withLock({ $0 }) { await consumer.removeObserver(id) }
        }
        let id = await consumer.observe("article", .insert) { _ in journal.add("second") }
        second.withLock { $0 = id }
        try await merging(consumer, fixture) { try await fixture.insert(2) }
        #expect(journal.entries == ["first", "first"])
    }

    @Test(
        "PHT20: before inserts, an unknown before appends; finish skips later hooks and the merge, and the token advances"
    )
    func mergeHooks() async throws {
        let fixture = try await ConsumerFixture()
        let context = RecordingContext()
        let consumer = consumer(fixture, [context])
        let journal = Journal()
        let a = await consumer.addMergeHook { _ in
            journal.add("a")
            return .continue
        }
        let b = await consumer.addMergeHook(before: a) { _ in
            journal.add("b")
            return .continue
        }
        #expect(await consumer.removeMergeHook(b))
        #expect(await !consumer.removeMergeHook(b))
        await consumer.addMergeHook(before: a) { _ in
            journal.add("B")
            return .continue
        }
        let finishing = await consumer.addMergeHook(before: b) { input in
            journal.add("finish \(input.batch.transactions.count) through \(input.batch.token.sequence)")
            return .finish
        }
        await consumer.addMergeHook { _ in
            journal.add("later")
            return .continue
        }
        await consumer.observe("article", .insert) { _ in journal.add("observer") }
        try await merging(consumer, fixture) {
            try await consumer.waitUntilCaughtUp(to: fixture.insert())
            #expect(journal.entries == ["B", "a", "finish 1 through 2", "observer"])
            #expect(context.sequences == [])
            journal.clear()
            #expect(await consumer.removeMergeHook(finishing))
            try await consumer.waitUntilCaughtUp(to: fixture.insert())
            #expect(journal.entries == ["B", "a", "later", "observer"])
            #expect(context.sequences == [3])
            journal.clear()
            await consumer.removeAllMergeHooks()
            try await fixture.insert()
        }
        #expect(journal.entries == ["observer"])
        #expect(context.sequences == [3, 4])
    }

    @Test("PHT20: a throwing hook leaves the token, and the batch is tried again; contexts get nothing twice")
    func throwingHook() async throws {
        let fixture = try await ConsumerFixture()
        let context = RecordingContext()
        let consumer = consumer(fixture, [context])
        let attempts = Locked(0)
        struct Failure: Error {}
        await consumer.observe("article", .insert) { _ in
            if attempts.withLock({
                $0 += 1
                return $0 <= 3
            }) {
                throw Failure()
            }
        }
        try await merging(consumer, fixture) { try await fixture.insert() }
        #expect(attempts.withLock { $0 } == 4)
        #expect(context.sequences == [2])
        #expect(consumer.status().counts.failures == 3)
        #expect(consumer.status().token?.sequence == 2)
    }

    @Test(
        "PHT20: a throwing merge hook leaves the token: those before it are called again, what is behind it once, at last"
    )
    func throwingMergeHook() async throws {
        let fixture = try await ConsumerFixture()
        let journal = Journal()
        let context = RecordingContext(journal: journal)
        let consumer = consumer(fixture, [context])
        let attempts = Locked(0)
        struct Failure: Error {}
        await consumer.addMergeHook { input in
            journal.add("first \(input.batch.token.sequence)")
            return .continue
        }
        await consumer.addMergeHook { [unowned consumer] _ in
            journal.add("at \(consumer.status().token?.sequence ?? 0)")
            let number = attempts.withLock { attempts in
                attempts += 1
                return attempts
            }
            if number <= 3 { throw Failure() }
            return .continue
        }
        await consumer.addMergeHook { _ in
            journal.add("later")
            return .continue
        }
        await consumer.observe("article", .insert) { _ in journal.add("observer") }
        try await merging(consumer, fixture) { try await fixture.insert() }
        let attempt = ["first 2", "at 1"]
        #expect(
            journal.entries == attempt + attempt + attempt + attempt + ["later", "merge recording", "observer"])
        #expect(context.sequences == [2])
        #expect(consumer.status().counts.failures == 3)
        #expect(consumer.status().token?.sequence == 2)
    }

    @Test("Hooks of entities that a transaction does not touch cost no look at its changes")
    func untouched() async throws {
        let fixture = try await ConsumerFixture()
        try await fixture.insert()
        let transaction = try #require(try await fixture.store.transaction(2))
        var matcher = HistoryEntityMatcher([
            (entity: "note", operation: .insert), (entity: "article", operation: .delete),
        ])
        var mayMatch = matcher.mayMatch(transaction)
        #expect(!mayMatch)
        matcher = HistoryEntityMatcher([(entity: "article", operation: .insert)])
        mayMatch = matcher.mayMatch(transaction)
        #expect(mayMatch)
    }

    @Test("A group of a transaction that lies in several parts is read part by part")
    func largeGroup() async throws {
        let fixture = try await ConsumerFixture()
        let consumer = consumer(fixture)
        let sums = Locked<[Int]>([])
        await consumer.observe("note", .insert) { group in
            var sum = 0
            for try await change in group where change.entity == "note" && change.operation == .insert { sum += 1 }
            sums.withLock { $0 += [group.count, sum] }
        }
        try await merging(consumer, fixture) {
            try await fixture.temporary.write(
                """
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
                INSERT INTO article(title) SELECT 'a title that is long enough to fill parts ' || i FROM n;
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
                INSERT INTO note(text) SELECT 'a text that is long enough to fill parts ' || i FROM n;
                UPDATE article SET title = title || '!';
                """)
        }
        #expect(sums.withLock { $0 } == [20000, 20000])
    }
}
