import Glibc
import HistoryMessaging
import LocalContexts
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

@Suite("Consumer without a broker", .timeLimit(.minutes(2)))
struct ConsumerTests {
    @Test(
        "PHT14: run() while running throws alreadyRunning; after stop() a commit moves no token; a later run() drains")
    func lifecycle() async throws {
        let fixture = try await ConsumerFixture()
        let context = RecordingContext()
        let consumer = HistoryConsumer(fixture.store, name: "c", contexts: [context], options: fixture.options())
        let first = try await fixture.insert(3)
        try await withServices(consumer) {
            try await consumer.waitUntilCaughtUp(to: first)
            let agents = await consumer.livingAgents
            #expect(agents > 0)
            let error = await #expect(throws: MessagingError.self) { try await consumer.run() }
            #expect(error?.code == .alreadyRunning)
            #expect(await consumer.livingAgents == agents)
        }
        #expect(consumer.status().state == .stopped)
        #expect(context.sequences == [1, 2, 3, 4])
        let missed = try await fixture.insert(2)
        #expect(consumer.status().token == first)
        #expect(context.sequences == [1, 2, 3, 4])
        try await withServices(consumer) { try await consumer.waitUntilCaughtUp(to: missed) }
        #expect(context.sequences == [1, 2, 3, 4, 5, 6])
        #expect(consumer.status().token == missed)
    }

    @Test("PHT14: stop() finishes the batch under way, and begins no other")
    func stopFinishes() async throws {
        let fixture = try await ConsumerFixture()
        let journal = Journal()
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        let consumer = HistoryConsumer(
            fixture.store, name: "c", options: fixture.options { $0.pageSize = 2 })
        try await fixture.insert(3)
        await consumer.addMergeHook { input in
            journal.add("begin \(input.batch.transactions.map(\.token.sequence))")
            for await _ in gate { break }
            journal.add("end")
            return .continue
        }
        async let run: Void = consumer.run()
        await journal.wait(for: 1)
        async let stopped: Void = consumer.stop()
        // Not before the stop has arrived.
        try await until { consumer.isStopping }
        #expect(consumer.status().state == .running)
        open.yield()
        try await run
        await stopped
        #expect(journal.entries == ["begin [1, 2]", "end"])
        #expect(consumer.status().token?.sequence == 2)
        #expect(consumer.status().state == .stopped)
    }

    @Test("PHT15: a context does not merge what it saved itself, and the token passes it; another context does")
    func ownOrigin() async throws {
        let fixture = try await ConsumerFixture()
        let origin = HistoryOrigin()
        let own = RecordingContext("own", origin: origin)
        let index = RecordingContext("index")
        let consumer = HistoryConsumer(fixture.store, name: "c", contexts: [own, index], options: fixture.options())
        let token = try await fixture.store.write(origin: origin) { db in
            try db.execute("INSERT INTO article(title) VALUES ('mine')")
        }.token
        try await withServices(consumer) { try await consumer.waitUntilCaughtUp(to: #require(token)) }
        #expect(own.sequences == [1])
        #expect(index.sequences == [1, 2])
        #expect(consumer.status().token == token)
        // The stop has acknowledged what was caught up with.
        #expect(consumer.status().acknowledged == token)
        #expect(try await fixture.store.consumers().map(\.acknowledged) == [token])
    }

    @Test(
        "PHT15: a full-text index that the author's own process feeds finds what the process wrote; its view skips that"
    )
    func fullText() async throws {
        let fixture = try await ConsumerFixture()
        let file = try await SQLiteConnection.open(
            fixture.temporary.directory.file("index.db"), options: OpenOptions(access: .create))
        try await file.run { db in try db.execute("CREATE VIRTUAL TABLE found USING fts5(title)") }
        let index = ClosureContext.eachTransaction("index") { transaction in
            for try await change in transaction.changes where change.entity == "article" {
                let change = change.decoded()
                let (id, title) = (change.key["id"] ?? .null, change.after?["title"])
                try await file.run { db in
                    try db.execute("DELETE FROM found WHERE rowid = ?", id)
                    if let title { try db.execute("INSERT INTO found(rowid, title) VALUES (?, ?)", id, title) }
                }
            }
        }
        let view = RecordingContext("view", origin: fixture.store.origin)
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [view, index], options: fixture.options())
        @Sendable func matches(_ text: String) async throws -> [Int64] {
            try await file.run { db in
                try db.query("SELECT rowid FROM found WHERE found MATCH ? ORDER BY rowid", text) {
                    try $0.get(0, as: Int64.self)
                }
            }
        }
        try await withServices(consumer) {
            try await fixture.temporary.write(
                "INSERT INTO article(id, title) VALUES (1, 'red fox'), (2, 'grey wolf'), (3, 'white fox')")
            let other = try await fixture.author("others")
            _ = try await other.write { db in try db.execute("INSERT INTO article(id, title) VALUES (4, 'fox')") }
            try await consumer.waitUntilCaughtUp(to: fixture.store.currentToken())
            #expect(try await matches("fox") == [1, 3, 4])
            #expect(try await matches("wolf") == [2])
            try await fixture.temporary.write("UPDATE article SET title = 'red wolf' WHERE id = 1")
            let token = try await fixture.temporary.write("DELETE FROM article WHERE id = 3")
            try await consumer.waitUntilCaughtUp(to: #require(token))
            #expect(try await matches("fox") == [4])
            #expect(try await matches("wolf") == [1, 2])
            try await until { consumer.status().acknowledged == token }
            #expect(consumer.status().token == token)
        }
        // Only what the other author wrote.
        #expect(view.sequences == [3])
        await file.close()
    }

    @Test("PHT16: a sole writer that merges nothing of its own is acknowledged to the head, and does not hold history")
    func soleWriter() async throws {
        let fixture = try await ConsumerFixture()
        let own = RecordingContext("own", origin: fixture.store.origin)
        let consumer = HistoryConsumer(fixture.store, name: "c", contexts: [own], options: fixture.options())
        try await withServices(consumer) {
            let token = try await fixture.insert(5)
            try await until { try await fixture.store.consumers().map(\.acknowledged) == [token] }
        }
        #expect(own.sequences == [])
        _ = try await HistoryCleaner(fixture.store).clean()
        #expect(try await fixture.temporary.sequences() == [6])
    }

    @Test("PHT15: two processes of one author see each other's transactions")
    func oneAuthor() async throws {
        let fixture = try await ConsumerFixture()
        let other = try await fixture.author("orders")
        let contexts = [fixture.store, other].map { RecordingContext(origin: $0.origin) }
        let consumers = [
            HistoryConsumer(fixture.store, name: "a", contexts: [contexts[0]], options: fixture.options()),
            HistoryConsumer(other, name: "b", contexts: [contexts[1]], options: fixture.options()),
        ]
        try await fixture.insert()
        let token = try await fixture.insert(into: other)
        try await withServices(consumers[0], consumers[1]) {
            for consumer in consumers { try await consumer.waitUntilCaughtUp(to: token) }
        }
        #expect(contexts[0].sequences == [3])
        #expect(contexts[1].sequences == [1, 2])
    }

    @Test(
        "PHT15, PHT29: authors are restricted or excluded, mirrors are not merged unless asked for; the token passes all",
        arguments: AuthorCase.all)
    func authors(_ example: AuthorCase) async throws {
        let fixture = try await ConsumerFixture()
        let context = RecordingContext()
        for name in ["a", "b", "c"] { try await fixture.insert(into: fixture.author(name)) }
        let head = try await fixture.store.currentToken()
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [context], options: fixture.options(example.change))
        try await withServices(consumer) {
            try await consumer.waitUntilCaughtUp(to: head)
            try await until { consumer.status().acknowledged == head }
        }
        #expect(context.sequences == example.expected)
        #expect(consumer.status().token == head)
    }

    struct AuthorCase: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let expected: [Int64]
        let change: @Sendable (inout HistoryConsumer.Options) -> Void

        static let all = [
            AuthorCase(testDescription: "all", expected: [1, 2, 3, 4]) { _ in },
            AuthorCase(testDescription: "only a and c", expected: [2, 4]) { $0.authors = ["a", "c"] },
            AuthorCase(testDescription: "nobody", expected: []) { $0.authors = [] },
            AuthorCase(testDescription: "not b", expected: [1, 2, 4]) { $0.excludingAuthors = ["b"] },
            AuthorCase(testDescription: "no mirrors", expected: [1, 2, 3]) { $0.mirrorAuthors = ["c"] },
            AuthorCase(testDescription: "mirrors too", expected: [1, 2, 3, 4]) {
                $0.mirrorAuthors = ["c"]
                $0.mergesMirrors = true
            },
        ]
    }

    @Test("PHT17: fetch, merge hooks, contexts in order, observer hooks, token, broker ack, acknowledgement")
    func order() async throws {
        let fixture = try await ConsumerFixture()
        let journal = Journal()
        var options = fixture.options { $0.start = .now }
        options.onStep = { journal.add($0.rawValue) }
        let contexts = [RecordingContext("a", journal: journal), RecordingContext("b", journal: journal)]
        let consumer = HistoryConsumer(fixture.store, name: "c", contexts: contexts, options: options)
        await consumer.addMergeHook { input in
            journal.add("hook \(input.batch.transactions.count) of \(input.contexts.map(\.name))")
            return .continue
        }
        await consumer.observe("article", .insert) { journal.add("observer \($0.count)") }
        try await withServices(consumer) {
            try await until { consumer.status().acknowledged != nil }
            journal.clear()
            let token = try await fixture.insert()
            try await consumer.waitUntilCaughtUp(to: token)
            try await until { consumer.status().acknowledged == token }
        }
        let expected = [
            "consumerBeforeMerge", #"hook 1 of ["a", "b"]"#, "merge a", "merge b", "observer 1", "consumerAfterMerge",
            "consumerAfterToken", "consumerAfterBrokerAck", "consumerAfterAcknowledgement",
        ]
        // Polls that find nothing new pass the broker's ack too.
        #expect(journal.entries.filter { $0 != "consumerAfterBrokerAck" } == expected.filter { $0 != expected[7] })
        let ack = try #require(journal.entries.lastIndex(of: "consumerAfterAcknowledgement"))
        let token = try #require(journal.entries.firstIndex(of: "consumerAfterToken"))
        #expect(journal.entries[token..<ack].contains("consumerAfterBrokerAck"))
    }

    @Test("PHT22: two consumers of one author keep separate tokens")
    func twoConsumers() async throws {
        let fixture = try await ConsumerFixture()
        let consumers = ["a", "b"].map {
            HistoryConsumer(fixture.store, name: $0, contexts: [RecordingContext()], options: fixture.options())
        }
        let first = try await fixture.insert()
        try await withServices(consumers[0]) { try await consumers[0].waitUntilCaughtUp(to: first) }
        let second = try await fixture.insert()
        try await withServices(consumers[1]) { try await consumers[1].waitUntilCaughtUp(to: second) }
        #expect(consumers[0].status().token == first)
        #expect(consumers[1].status().token == second)
    }

    @Test("PHT23: 100 parallel commits: an observer hook sees each exactly once")
    func parallel() async throws {
        let fixture = try await ConsumerFixture()
        let seen = Locked<[String]>([])
        let consumer = HistoryConsumer(fixture.store, name: "c", options: fixture.options())
        await consumer.observe("article", .insert) { group in
            for try await change in group { seen.withLock { $0.append("\(change.after?["title"] ?? .null)") } }
        }
        try await withServices(consumer) {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<100 {
                    group.addTask {
                        _ = try await fixture.store.write { db in
                            try db.execute("INSERT INTO article(title) VALUES (?)", "\(number)")
                        }
                    }
                }
                try await group.waitForAll()
            }
            try await consumer.waitUntilCaughtUp(to: fixture.store.currentToken())
        }
        let expected = (0..<100).map { "\(SQLiteValue.text("\($0)"))" }
        #expect(seen.withLock { $0 }.sorted() == expected.sorted())
    }

    @Test("P2: clocks an hour apart, or stepping back, lose nothing")
    func clocks() async throws {
        let fixture = try await ConsumerFixture()
        let clock = TestClock()
        var options = HistoryStore.Options()
        options.clock = clock
        let other = try await HistoryStore.open(fixture.temporary.path, author: "late", options: options)
        let context = RecordingContext()
        let consumer = HistoryConsumer(fixture.store, name: "c", contexts: [context], options: fixture.options())
        try await withServices(consumer) {
            for step in [Duration.seconds(-3600), .seconds(7200), .seconds(-100_000)] {
                clock.advance(by: step)
                try await fixture.insert(into: other)
                try await fixture.insert()
            }
            try await consumer.waitUntilCaughtUp(to: fixture.store.currentToken())
        }
        #expect(context.sequences == Array(1...7))
    }

    @Test("P24: an idle consumer whose history is all of others that it skips acknowledges the head")
    func idle() async throws {
        let fixture = try await ConsumerFixture()
        let consumer = HistoryConsumer(fixture.store, name: "c", options: fixture.options { $0.authors = [] })
        try await withServices(consumer) {
            for _ in 0..<3 {
                let token = try await fixture.insert()
                try await until { consumer.status().acknowledged == token }
            }
        }
        #expect(consumer.status().counts.transactions == 0)
    }

    @Test("A second consumer of a name is refused, naming the first one's host and process")
    func secondOfAName() async throws {
        let fixture = try await ConsumerFixture()
        let consumer = HistoryConsumer(fixture.store, name: "c", options: fixture.options())
        let second = HistoryConsumer(fixture.store, name: "c", options: fixture.options())
        let token = try await fixture.insert()
        try await withServices(consumer) {
            try await consumer.waitUntilCaughtUp(to: token)
            let error = await #expect(throws: MessagingError.self) { try await second.run() }
            #expect(error?.code == .inUse)
            #expect(error?.message.contains("process \(getpid()) on \(fixture.store.origin.host)") == true)
        }
        // The name is free again.
        try await withServices(second) { try await second.waitUntilCaughtUp(to: token) }
    }

    @Test("Missing history is fetched from the store, unless said otherwise")
    func source() {
        #expect(HistoryConsumer.Options().source == .store)
        #expect(HistoryConsumer.Source.store.description == "store")
    }

    @Test("An empty name, and two contexts of one name, are refused")
    func names() async throws {
        let fixture = try await ConsumerFixture()
        for consumer in [
            HistoryConsumer(fixture.store, name: " "),
            HistoryConsumer(fixture.store, name: "c", contexts: [RecordingContext("x"), RecordingContext("x")]),
        ] {
            let error = await #expect(throws: MessagingError.self) { try await consumer.run() }
            #expect(error?.code == .invalid)
        }
    }

    @Test("Whoever waits is told when the consumer stops, and when they are cancelled")
    func waiting() async throws {
        let fixture = try await ConsumerFixture()
        let consumer = HistoryConsumer(fixture.store, name: "c", options: fixture.options())
        let head = try await fixture.store.currentToken()
        let far = HistoryToken(storeID: head.storeID, epoch: head.epoch, sequence: 1000, nonce: 1)
        let waiter = Task { try await consumer.waitUntilCaughtUp(to: far) }
        let cancelled = Task { try await consumer.waitUntilCaughtUp(to: far) }
        try await withServices(consumer) {
            try await consumer.waitUntilCaughtUp(to: head)
            cancelled.cancel()
            await #expect(throws: CancellationError.self) { try await cancelled.value }
        }
        let error = await #expect(throws: MessagingError.self) { try await waiter.value }
        #expect(error?.code == .stopped)
    }

    @Test("P32: after stop() every agent is gone")
    func nothingStays() async throws {
        let fixture = try await ConsumerFixture()
        let consumer = HistoryConsumer(
            fixture.store, name: "c", contexts: [MirrorContext()], options: fixture.options())
        let token = try await fixture.insert()
        for _ in 0..<3 {
            try await withServices(consumer) { try await consumer.waitUntilCaughtUp(to: token) }
            try await until { await consumer.livingAgents == 0 }
        }
    }

    @Test("A cancellation ends the run, and the next one goes on")
    func cancellation() async throws {
        let fixture = try await ConsumerFixture()
        let context = RecordingContext()
        let consumer = HistoryConsumer(fixture.store, name: "c", contexts: [context], options: fixture.options())
        let token = try await fixture.insert()
        let run = Task { try await consumer.run() }
        try await consumer.waitUntilCaughtUp(to: token)
        run.cancel()
        await #expect(throws: CancellationError.self) { try await run.value }
        let next = try await fixture.insert()
        try await withServices(consumer) { try await consumer.waitUntilCaughtUp(to: next) }
        #expect(context.sequences == [1, 2, 3])
    }

    @Test("A closed store ends the run with its error")
    func closedStore() async throws {
        let fixture = try await ConsumerFixture()
        let reader = try await HistoryStore.openReadOnly(fixture.temporary.path)
        let consumer = HistoryConsumer(reader, name: "c", options: fixture.options())
        let token = try await fixture.insert()
        let run = Task { try await consumer.run() }
        try await consumer.waitUntilCaughtUp(to: token)
        #expect(!consumer.status().isProtected)
        await reader.close()
        let error = await #expect(throws: HistoryError.self) { try await run.value }
        #expect(error?.code == .closed)
    }
}
