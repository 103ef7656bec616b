import Foundation
import PersistentHistory
import Synchronization
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("Registrations, acknowledgements and cleaning in a store", .timeLimit(.minutes(2)))
struct RegistryTests {
    private static let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, v)"

    /// A store with a number of transactions, that of tracking included.
    private static func store(_ transactions: Int) async throws -> TemporaryStore {
        let temporary = try await TemporaryStore(schema: Self.schema)
        for number in 1..<transactions { try await temporary.write("INSERT INTO t(v) VALUES (\(number))") }
        return temporary
    }

    private static func tokens(_ temporary: TemporaryStore) async throws -> [HistoryToken] {
        try await temporary.transactions().map(\.token)
    }

    private static func code(_ body: () async throws -> Void) async -> HistoryError.Code? {
        do {
            try await body()
            return nil
        } catch { return (error as? HistoryError)?.code }
    }

    @Test("registering twice gives the same floor, and no transaction of the history")
    func register() async throws {
        let temporary = try await Self.store(5)
        let store = temporary.store
        let tokens = try await Self.tokens(temporary)
        #expect(try await store.register(consumer: "a", author: "orders") == tokens[4])
        try await temporary.write("INSERT INTO t(v) VALUES (9)")
        #expect(try await store.register(consumer: "a", author: "orders") == tokens[4])
        #expect(try await store.register(consumer: "b", author: "orders", token: tokens[1]) == tokens[1])
        // A token of another store, or of a lost lineage, is no place to read on from.
        let foreign = HistoryToken(storeID: UUID(), epoch: 1, sequence: 2, nonce: 1)
        let head = try await store.currentToken()
        #expect(try await store.register(consumer: "c", author: "orders", token: foreign) == head)
        #expect(head.sequence == 6)
        let records = try await store.consumers()
        #expect(records.map(\.name) == ["a", "b", "c"])
        #expect(records.map(\.floor) == [5, 2, 6])
        #expect(records.allSatisfy { $0.acknowledged == nil && $0.state == .active && $0.user == nil })
    }

    @Test("names and roles that cannot be used are refused")
    func badNames() async throws {
        let temporary = try await Self.store(1)
        defer { withExtendedLifetime(temporary) {} }
        let store = temporary.store
        for (name, author, role) in [
            ("", "o", "required"), ("a\n", "o", "required"), (String(repeating: "x", count: 129), "o", "required"),
            ("a", "", "required"), ("a", "o", "queen"),
        ] {
            let code = await Self.code { try await store.register(consumer: name, author: author, role: role) }
            #expect(code == .invalidRequest)
        }
        #expect(try await store.consumers() == [])
    }

    @Test("a consumer's name belongs to the user who registered it, until it is evicted")
    func users() async throws {
        let temporary = try await Self.store(3)
        defer { withExtendedLifetime(temporary) {} }
        let store = temporary.store
        func register(_ user: String, configured: String? = nil) async -> HistoryError.Code? {
            await Self.code {
                _ = try await store.register(
                    RegistrationRequest(consumer: "a", author: "orders", user: user, requiredUser: configured))
            }
        }
        #expect(await register("alice") == nil)
        #expect(await register("bob") == .invalidRequest)
        #expect(await register("alice") == nil)
        #expect(try await store.consumers().first?.user == "alice")
        // A local process that registers the same consumer changes nothing about it.
        try await store.register(consumer: "a", author: "orders")
        #expect(try await store.consumers().first?.user == "alice")
        #expect(await register("bob", configured: "bob") == nil)
        #expect(await register("alice", configured: "bob") == .invalidRequest)
        try await store.coordinate { db, _ in try db.execute("UPDATE history_consumer SET state = 'evicted'") }
        #expect(await register("carol") == nil)
        #expect(try await store.consumers().first?.state == .active)
    }

    @Test("who claims a consumer that registered in the store itself takes over its claim, and cannot lower it by that")
    func claiming() async throws {
        let temporary = try await Self.store(5)
        let store = temporary.store
        let tokens = try await Self.tokens(temporary)
        func claim(_ user: String, token: HistoryToken? = nil, configured: String? = nil) async throws -> Bool {
            var request = RegistrationRequest(
                consumer: "a", author: "import", role: "optional", token: token, user: user, requiredUser: configured)
            request.token = token
            return try await store.register(request).isClaim
        }
        func record() async throws -> ConsumerRecord { try #require(try await store.consumers().first) }
        try await store.register(consumer: "a", author: "orders", token: tokens[1])
        try await store.acknowledge(tokens[2], consumer: "a")
        #expect(try await claim("mallory", token: tokens[4]))
        let claimed = try await record()
        // Nothing that holds history has become less.
        #expect(claimed.user == "mallory" && claimed.role == "required" && claimed.author == "orders")
        #expect(claimed.hold == 3 && claimed.acknowledged == tokens[2])
        #expect(await Self.code { _ = try await claim("alice") } == .invalidRequest)
        // Whom the configuration names is the consumer's own user, and may say what it is.
        #expect(try await !claim("alice", configured: "alice"))
        let owned = try await record()
        #expect(owned.user == "alice" && owned.role == "optional" && owned.author == "import" && owned.hold == 3)
        // An optional one that is claimed may become required.
        try await store.register(consumer: "b", author: "orders", role: "optional")
        _ = try await store.register(RegistrationRequest(consumer: "b", author: "orders", user: "alice"))
        #expect(try await store.consumers().last?.role == "required")
    }

    @Test("acknowledging: the largest counts, and what cannot be true is refused with its reason")
    func acknowledge() async throws {
        let temporary = try await Self.store(5)
        let store = temporary.store
        let tokens = try await Self.tokens(temporary)
        #expect(await Self.code { try await store.acknowledge(tokens[2], consumer: "a") } == .invalidRequest)
        try await store.register(consumer: "a", author: "orders")
        for index in [2, 1, 3, 0] { try await store.acknowledge(tokens[index], consumer: "a") }
        #expect(try await store.consumers().first?.acknowledged == tokens[3])
        let wrong = [
            HistoryToken(storeID: UUID(), epoch: 1, sequence: 5, nonce: tokens[4].nonce),
            HistoryToken(storeID: store.storeID, epoch: 2, sequence: 5, nonce: tokens[4].nonce),
            HistoryToken(storeID: store.storeID, epoch: 1, sequence: 6, nonce: tokens[4].nonce),
            HistoryToken(storeID: store.storeID, epoch: 1, sequence: 5, nonce: tokens[4].nonce ^ 1),
        ]
        for token in wrong {
            #expect(await Self.code { try await store.acknowledge(token, consumer: "a") } == .tokenInvalid)
        }
        #expect(try await store.consumers().first?.acknowledged == tokens[3])
        #expect(try await store.currentToken().epoch == 1)
    }

    @Test("several acknowledgements are one transaction; those that count do so beside refused ones")
    func batch() async throws {
        let temporary = try await Self.store(5)
        let store = temporary.store
        let tokens = try await Self.tokens(temporary)
        for name in ["a", "b"] { try await store.register(consumer: name, author: "orders") }
        let foreign = HistoryToken(storeID: UUID(), epoch: 1, sequence: 2, nonce: 1)
        let list = [("a", tokens[1]), ("b", foreign), ("a", tokens[3]), ("a", tokens[2]), ("x", tokens[1])]
        let outcome = try await store.acknowledge(
            list.map { Acknowledgement(consumer: $0.0, token: $0.1) }, startsEpoch: true)
        #expect(
            outcome.verdicts == [.recorded, .refused(.otherStore), .recorded, .known, .refused(.unregistered)])
        #expect(outcome.newEpoch == nil)
        #expect(try await store.consumers().map(\.acknowledged) == [tokens[3], nil])
    }

    @Test("P28: proof of a lost lineage begins an epoch in the same transaction, and cleaning waits for everybody")
    func newEpoch() async throws {
        let temporary = try await Self.store(5)
        let store = temporary.store
        let tokens = try await Self.tokens(temporary)
        for name in ["a", "b"] {
            try await store.register(consumer: name, author: "orders")
            try await store.acknowledge(tokens[3], consumer: name)
        }
        let beyond = HistoryToken(storeID: store.storeID, epoch: 1, sequence: 9, nonce: 1)
        let list = [("a", tokens[4]), ("b", beyond), ("a", tokens[4])]
        let outcome = try await store.acknowledge(
            list.map { Acknowledgement(consumer: $0.0, token: $0.1) }, startsEpoch: true)
        #expect(outcome.verdicts == [.refused(.otherEpoch), .refused(.beyondHead), .refused(.otherEpoch)])
        #expect(outcome.newEpoch == 2)
        let records = try await store.consumers()
        #expect(records.allSatisfy { $0.state == .resyncing && $0.acknowledged == nil && $0.acknowledgedAt == nil })
        #expect(await Self.code { try await store.validate(tokens[4]) } == .tokenInvalid)
        let head = try await store.currentToken()
        #expect(head.epoch == 2 && head.sequence == 5)
        // One that acknowledges in the new epoch is back; the other still holds everything.
        try await store.acknowledge(head, consumer: "a")
        #expect(try await store.clean(PurgeRules()).decision.obstacles.map(\.name) == ["b"])
        try await store.acknowledge(head, consumer: "b")
        #expect(try await store.clean(PurgeRules()).count == 4)
        let audit = try await store.read { try $0.rows("SELECT kind, actor, count, detail FROM history_audit") }
        #expect(
            audit == [
                ["epoch", "orders", 2, "b acknowledged sequence 9: beyondHead"],
                ["purge", "orders", 4, "cleaning before sequence 5, held by a, b"],
            ])
        // Writers of this process and of others go on in the new epoch.
        #expect(try await temporary.write("INSERT INTO t(v) VALUES (1)")?.epoch == 2)
        let other = try await HistoryStore.open(temporary.path, author: "other")
        #expect(try await other.write { try $0.execute("INSERT INTO t(v) VALUES (1)") }.token?.epoch == 2)
    }

    @Test("P28: the new epoch is after every one that was lost, and two copies do not outbid each other")
    func laterEpochs() async throws {
        let clock = TestClock()
        var options = HistoryStore.Options()
        options.clock = clock
        let temporary = try await TemporaryStore(schema: Self.schema, options: options)
        let store = temporary.store
        for name in ["a", "b", "c"] { try await store.register(consumer: name, author: "orders") }
        func acknowledge(_ list: [(name: String, epoch: Int64)]) async throws -> AcknowledgementOutcome {
            try await store.acknowledge(
                list.map { name, epoch in
                    let token = HistoryToken(storeID: store.storeID, epoch: epoch, sequence: 1, nonce: 1)
                    return Acknowledgement(consumer: name, token: token)
                }, startsEpoch: true)
        }
        let first = try await acknowledge([("a", 1), ("b", 4), ("c", 3)])
        #expect(first.verdicts == [.refused(.otherNonce), .refused(.laterEpoch), .refused(.laterEpoch)])
        #expect(first.newEpoch == 5)
        // The other copy answers with a later one, again and again.
        let second = try await acknowledge([("b", 6)])
        #expect(second.verdicts == [.refused(.laterEpoch)])
        #expect(second.newEpoch == nil)
        #expect(try await store.currentToken().epoch == 5)
        // What was lost from the epoch that runs is another matter; and after an hour it may be true.
        #expect(try await acknowledge([("a", 5)]).newEpoch == 6)
        clock.advance(by: .seconds(3601))
        #expect(try await acknowledge([("b", 8)]).newEpoch == 9)
    }

    @Test("an epoch that only damage explains is an error, and no overflow", arguments: [0, -1, Int64.max])
    func damagedEpoch(_ epoch: Int64) async throws {
        let temporary = try await Self.store(1)
        let raw = try await SQLiteConnection.open(temporary.path)
        try await raw.run { try $0.execute("UPDATE history_store SET epoch = ?", epoch) }
        #expect(await Self.code { _ = try await temporary.store.currentToken() } == .damagedHistory)
    }

    @Test("PHT27, PHT28, PHT30: cleaning removes strictly before the minimum, as the dry run said, and no data")
    func clean() async throws {
        let temporary = try await Self.store(40)
        let store = temporary.store
        let tokens = try await Self.tokens(temporary)
        for (name, index) in [("a", 30), ("b", 20), ("c", 39)] {
            try await store.register(consumer: name, author: "orders")
            try await store.acknowledge(tokens[index], consumer: name)
        }
        let plan = try await store.planCleaning(PurgeRules())
        #expect(plan.count == 20 && plan.decision.bound == tokens[20] && plan.decision.holders == ["b"])
        #expect(try await temporary.sequences().count == 40)
        let outcome = try await store.clean(PurgeRules(), chunk: 6)
        #expect(outcome == plan)
        #expect(try await temporary.sequences() == Array(21...40))
        #expect(try await store.read { try $0.first("SELECT count(*) FROM t", as: Int.self) } == 39)
        #expect(try await store.planCleaning(PurgeRules()).count == 0)
        #expect(try await store.clean(PurgeRules()).count == 0)
        // The token that was acknowledged can be read on from.
        #expect(try await temporary.sequences(HistoryRequest(after: tokens[20])) == Array(22...40))
    }

    @Test("PHT29: a mirror author's first transaction holds all behind it, also in the middle of a chunk")
    func mirrors() async throws {
        let temporary = try await Self.store(10)
        let mirror = try await HistoryStore.open(temporary.path, author: "cloud")
        try await mirror.write { try $0.execute("INSERT INTO t(v) VALUES (0)") }
        for _ in 0..<5 { try await temporary.write("INSERT INTO t(v) VALUES (1)") }
        try await mirror.write { try $0.execute("INSERT INTO t(v) VALUES (0)") }
        let head = try await temporary.store.currentToken()
        try await temporary.store.register(consumer: "a", author: "orders")
        try await temporary.store.acknowledge(head, consumer: "a")
        var rules = PurgeRules(mirrorAuthors: ["cloud", "elsewhere"])
        let plan = try await temporary.store.planCleaning(rules)
        #expect(plan.count == 10 && plan.decision.isHeldByMirror)
        #expect(try await temporary.store.clean(rules, chunk: 4) == plan)
        #expect(try await temporary.sequences() == Array(11...17))
        #expect(try await temporary.store.clean(rules).count == 0)
        rules.cleansMirrors = true
        #expect(try await temporary.store.clean(rules).count == 6)
        #expect(try await temporary.sequences() == [17])
    }

    @Test("P34: who registers between two chunks holds what is left, from the next chunk on")
    func registrationBetweenChunks() async throws {
        let temporary = try await Self.store(40)
        let store = temporary.store
        let tokens = try await Self.tokens(temporary)
        try await store.register(consumer: "a", author: "orders")
        try await store.acknowledge(tokens[39], consumer: "a")
        let chunks = Mutex(0)
        let path = temporary.path
        let register: @Sendable (CleaningStep) -> Void = { step in
            guard case .betweenChunks = step else { return }
            let number = chunks.withLock { chunks in
                chunks += 1
                return chunks
            }
            guard number == 1 else { return }
            // As another process does it.
            let database = try? Database(path: path, options: OpenOptions(access: .readWrite))
            try? database?.execute(
                """
                INSERT INTO history_consumer(name, author, role, state, floor_sequence, epoch, registered)
                VALUES ('late', 'orders', 'required', 'active', 40, 1, 0)
                """)
            database?.close()
        }
        let outcome = try await store.clean(PurgeRules(), chunk: 10, onStep: register)
        #expect(outcome.count == 10)
        #expect(outcome.decision.obstacles.map(\.name) == ["late"])
        #expect(try await temporary.sequences() == Array(11...40))
    }
}
