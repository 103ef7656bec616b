import HistoryMessaging
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

@Suite("Cleaning without a broker", .timeLimit(.minutes(2)))
struct CleaningTests {
    private static func code(_ body: () async throws -> Void) async -> MessagingError.Code? {
        do {
            try await body()
            return nil
        } catch { return (error as? MessagingError)?.code }
    }

    /// A store of so many transactions, whose consumers have acknowledged up to these sequences.
    private static func store(
        _ transactions: Int, _ consumers: [String: Int]
    ) async throws -> (temporary: TemporaryStore, tokens: [HistoryToken]) {
        let temporary = try await TemporaryStore.cleanable(transactions)
        let tokens = try await temporary.transactions().map(\.token)
        for (name, sequence) in consumers {
            try await temporary.store.register(consumer: name, author: "orders")
            try await temporary.store.acknowledge(tokens[sequence - 1], consumer: name)
        }
        return (temporary, tokens)
    }

    @Test("PHT16: a sole writer that acknowledges its own writes is cleaned up behind, for ever")
    func soleWriter() async throws {
        let (temporary, _) = try await Self.store(5, ["orders-1": 5])
        var options = HistoryCleaner.Options()
        options.requiredAuthors = ["orders"]
        let cleaner = HistoryCleaner(temporary.store, options: options)
        #expect(try await cleaner.clean().count == 4)
        for round in 0..<3 {
            for _ in 0..<10 { try await temporary.write("INSERT INTO t(v) VALUES (1)") }
            try await temporary.store.acknowledge(try await temporary.store.currentToken(), consumer: "orders-1")
            #expect(try await cleaner.clean().count == 10, "round \(round)")
        }
        #expect(try await temporary.sequences() == [35])
    }

    @Test("PHT26: one that never acknowledged blocks by hand and by itself, is named, and uses up no slot")
    func blocked() async throws {
        let (temporary, tokens) = try await Self.store(10, ["a": 8])
        let store = temporary.store
        try await store.register(consumer: "b", author: "orders")
        let events = CleanerEvents()
        var options = HistoryCleaner.Options()
        options.strategy = .byDuration(.seconds(3600))
        options.clock = TestClock()
        options.logger = events
        options.tick = .milliseconds(1)
        let cleaner = HistoryCleaner(store, options: options)
        #expect(await Self.code { try await cleaner.clean() } == .cleaningBlocked)
        let dry = try await cleaner.dryRun()
        #expect(dry.count == 0 && dry.obstacles.map(\.name) == ["b"])
        try await cleaner.running { _ in
            try await events.wait { events.messages(from: .warning) == ["cleaning is blocked"] }
            #expect(try await temporary.sequences().count == 10)
            // The refused attempts have used up no slot: it cleans as soon as it may.
            try await store.acknowledge(tokens[5], consumer: "b")
            try await events.wait { events.messages(from: .info).contains("cleaned") }
        }
        #expect(try await temporary.sequences() == Array(6...10))
        // A batch author's consumer is not waited for, though it never acknowledged.
        try await store.register(consumer: "c", author: "import")
        options.batchAuthors = ["import"]
        options.requiredAuthors = ["orders", "import"]
        try await store.acknowledge(tokens[9], consumer: "b")
        #expect(try await HistoryCleaner(store, options: options).clean().count == 2)
    }

    @Test("PHT27, PHT28, PHT30: what the dry run says goes, strictly before the minimum, and no row of data")
    func dryRun() async throws {
        let (temporary, tokens) = try await Self.store(30, ["a": 25, "b": 12, "c": 30])
        var options = HistoryCleaner.Options()
        options.chunk = 4
        let cleaner = HistoryCleaner(temporary.store, options: options)
        let dry = try await cleaner.dryRun()
        #expect(dry.count == 11 && dry.bound == tokens[11] && dry.holders == ["b"])
        #expect(try await temporary.sequences().count == 30)
        let rows = try await temporary.store.read { try $0.rows("SELECT * FROM t ORDER BY id") }
        #expect(try await cleaner.clean() == dry)
        #expect(try await temporary.sequences() == Array(12...30))
        #expect(try await temporary.store.read { try $0.rows("SELECT * FROM t ORDER BY id") } == rows)
        #expect(try await cleaner.dryRun().count == 0)
        #expect(try await cleaner.clean().count == 0)
        // The consumer that holds it reads on without a gap.
        #expect(try await temporary.sequences(HistoryRequest(after: tokens[11])) == Array(13...30))
    }

    @Test("PHT25: none never cleans by itself; cleanOnStart does once, whatever the strategy")
    func onStart() async throws {
        let (temporary, tokens) = try await Self.store(10, ["a": 5])
        let events = CleanerEvents()
        var options = HistoryCleaner.Options()
        options.logger = events
        options.tick = .milliseconds(1)
        options.cleanOnStart = true
        try await HistoryCleaner(temporary.store, options: options).running { _ in
            try await events.wait { events.messages(from: .info) == ["cleaned"] }
            try await temporary.store.acknowledge(tokens[9], consumer: "a")
        }
        // Stopping waits for the round under way: had it been due, it had been done.
        #expect(try await temporary.sequences() == Array(5...10))
    }

    @Test("PHT25: by duration: the first allowed, then one an interval of the clock's")
    func byDuration() async throws {
        let (temporary, tokens) = try await Self.store(20, ["a": 3])
        let clock = TestClock()
        let events = CleanerEvents()
        let looked = Locked(0)
        var options = HistoryCleaner.Options()
        options.strategy = .byDuration(.seconds(600))
        options.clock = CountingClock(
            clock: clock,
            looked: {
                looked.withLock { $0 += 1 }
                events.signal()
            })
        options.logger = events
        options.tick = .milliseconds(1)
        let cleaner = HistoryCleaner(temporary.store, options: options)
        try await cleaner.running { _ in
            try await events.wait { events.messages(from: .info) == ["cleaned"] }
            try await temporary.store.acknowledge(tokens[9], consumer: "a")
            clock.advance(by: .seconds(599))
            let before = looked.withLock { $0 }
            try await events.wait { looked.withLock { $0 } > before + 3 }
            #expect(try await temporary.sequences() == Array(3...20))
            clock.advance(by: .seconds(1))
            try await events.wait { events.messages(from: .info) == ["cleaned", "cleaned"] }
            #expect(try await temporary.sequences() == Array(10...20))
        }
        let status = await cleaner.status()
        #expect(status.cleanings == 2 && status.removed == 9 && !status.isRunning)
    }

    @Test("PHT25: by acknowledgements, also where they come by no broker: every third")
    func byAcknowledgements() async throws {
        let (temporary, tokens) = try await Self.store(20, ["a": 1])
        let events = CleanerEvents()
        var options = HistoryCleaner.Options()
        options.strategy = .byAcknowledgements(3)
        let looked = Locked(0)
        options.clock = CountingClock(
            clock: TestClock(),
            looked: {
                looked.withLock { $0 += 1 }
                events.signal()
            })
        options.logger = events
        options.tick = .milliseconds(1)
        try await HistoryCleaner(temporary.store, options: options).running { _ in
            for sequence in 2...7 {
                // It has looked at the one before.
                let before = looked.withLock { $0 }
                try await events.wait { looked.withLock { $0 } > before + 2 }
                let expected: Int64 = sequence <= 4 ? 1 : 4
                #expect(try await temporary.sequences().first == expected)
                try await temporary.store.acknowledge(tokens[sequence - 1], consumer: "a")
            }
            try await events.wait { events.messages(from: .info).count == 2 }
        }
        #expect(try await temporary.sequences() == Array(7...20))
    }

    @Test("PHT29: mirrors' transactions stay unless asked for, and a short interval with mirrors warns")
    func mirrors() async throws {
        let (temporary, _) = try await Self.store(10, [:])
        let mirror = try await HistoryStore.open(temporary.path, author: "cloud")
        try await mirror.write { try $0.execute("INSERT INTO t(v) VALUES (0)") }
        let last = try #require(try await temporary.write("INSERT INTO t(v) VALUES (0)"))
        try await temporary.store.register(consumer: "a", author: "orders")
        try await temporary.store.acknowledge(last, consumer: "a")
        let events = CleanerEvents()
        var options = HistoryCleaner.Options()
        options.mirrorAuthors = ["cloud"]
        options.logger = events
        let report = try await HistoryCleaner(temporary.store, options: options).clean()
        #expect(report.count == 10 && report.isHeldByMirror && report.bound?.sequence == 11)
        options.strategy = .byDuration(.seconds(7 * 24 * 3600))
        try await HistoryCleaner(temporary.store, options: options).running { _ in }
        #expect(events.messages(from: .warning) == [])
        options.strategy = .byDuration(.seconds(7 * 24 * 3600 - 1))
        try await HistoryCleaner(temporary.store, options: options).running { _ in }
        #expect(
            events.messages(from: .warning)
                == ["cleaning more often than every 7 days may remove what a mirror has not copied yet"])
        options.strategy = .none
        options.cleansMirrors = true
        #expect(try await HistoryCleaner(temporary.store, options: options).clean().count == 1)
        #expect(try await temporary.sequences() == [12])
    }

    @Test("P34: 100 registrations in the middle of cleanings: nothing above a promised floor ever goes")
    func registrationsWhilePurging() async throws {
        let (temporary, _) = try await Self.store(2, ["a": 1])
        var options = HistoryCleaner.Options()
        options.chunk = 3
        let cleaner = HistoryCleaner(temporary.store, options: options)
        // Connections of their own, as other processes have.
        let writing = try await HistoryStore.open(temporary.path, author: "orders")
        let registering = try await HistoryStore.open(temporary.path, author: "search")
        let attempts = Locked(0)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                while !Task.isCancelled {
                    // Blocked by whoever has registered and not acknowledged yet.
                    do { try await cleaner.clean() } catch is MessagingError {}
                    attempts.withLock { $0 += 1 }
                    await Task.yield()
                }
            }
            var below = 0
            for _ in 0..<100 {
                let before = try await temporary.purged().mark.sequence
                for _ in 0..<40 { try await writing.write { try $0.execute("INSERT INTO t(v) VALUES (1)") } }
                try await writing.acknowledge(try await writing.currentToken(), consumer: "a")
                // A cleaning of a dozen chunks has begun; it would have gone on past this place.
                while try await temporary.purged().mark.sequence == before { await Task.yield() }
                let wanted = try await registering.observe { database, state in
                    let sql = "SELECT sequence, nonce FROM history_transaction WHERE sequence >= ? LIMIT 1"
                    return try database.query(sql, state.purgedSequence + 12) { row in
                        state.token(try row.get(0), UInt64(bitPattern: try row.get(1)))
                    }.first
                }
                let floor = try await registering.register(consumer: "late", author: "search", token: wanted)
                if floor == wanted { below += 1 }
                // The cleaning under way has ended, and one more was tried.
                let tried = attempts.withLock { $0 }
                while attempts.withLock({ $0 }) < tried + 2 { await Task.yield() }
                let (missing, mark) = try await registering.observe { database, state in
                    let head = try state.head(database).sequence
                    let sql = "SELECT count(*) FROM history_transaction WHERE sequence > ?"
                    let count = try database.first(sql, floor.sequence, as: Int64.self) ?? 0
                    return (head - floor.sequence - count, state.mark)
                }
                #expect(missing == 0 && mark.sequence <= floor.sequence)
                try await registering.validate(floor)
                try await registering.coordinate { database, _ in
                    try database.execute("UPDATE history_consumer SET state = 'lost' WHERE name = 'late'")
                }
            }
            // Most of them were in time to hold what would have gone.
            #expect(below > 50)
            group.cancelAll()
        }
        #expect(try await temporary.purged().isWhole)
    }

    @Test("a cleaner runs once at a time, waits for one of another store object, and says for whom")
    func oneAtATime() async throws {
        let (temporary, _) = try await Self.store(3, [:])
        let events = CleanerEvents()
        var options = HistoryCleaner.Options()
        options.logger = events
        let other = try await HistoryStore.open(temporary.path, author: "other")
        let second = HistoryCleaner(other, options: options)
        try await HistoryCleaner(temporary.store).running { first in
            #expect(await Self.code { try await first.run() } == .alreadyRunning)
            try await second.running { second in
                try await events.wait { await second.status().waitingFor != nil }
                let holder = try #require(await second.status().waitingFor)
                #expect(holder.split(separator: " ").count == 2)
                await first.stop()
                while await second.status().waitingFor != nil { await Task.yield() }
                #expect(await second.status().isRunning)
            }
        }
        // Stopped while it waits, it ends.
        try await HistoryCleaner(temporary.store).running { first in
            try await second.running { second in
                while await second.status().waitingFor == nil { await Task.yield() }
            }
        }
        let readOnly = try await HistoryStore.openReadOnly(temporary.path)
        #expect(await Self.code { try await HistoryCleaner(readOnly).run() } == .invalid)
    }

    @Test("P28: an older copy of the history under a running cleaner is noticed: the epoch changes, nothing is purged")
    func olderCopy() async throws {
        let (temporary, tokens) = try await Self.store(20, ["a": 20, "b": 20])
        let events = CleanerEvents()
        let looked = Locked(0)
        var options = HistoryCleaner.Options()
        options.strategy = .byDuration(.seconds(1))
        let clock = TestClock()
        options.clock = CountingClock(
            clock: clock,
            looked: {
                looked.withLock { $0 += 1 }
                events.signal()
            })
        options.logger = events
        options.tick = .milliseconds(1)
        let cleaner = HistoryCleaner(temporary.store, options: options)
        try await cleaner.running { _ in
            try await events.wait { events.messages(from: .info) == ["cleaned"] }
            let before = looked.withLock { $0 }
            try await events.wait { looked.withLock { $0 } > before + 2 }
            // What an older copy looks like: the last transactions are gone, others take their sequences.
            let raw = try await SQLiteConnection.open(temporary.path)
            try await raw.run { database in
                try database.execute("DELETE FROM history_transaction WHERE sequence = 20")
                try database.execute(
                    """
                    INSERT INTO history_transaction SELECT 20, 4711, 0, 'orders', NULL, 'x:1:0', x'', 0, 0, x''
                    """)
            }
            clock.advance(by: .seconds(10))
            try await events.wait { events.messages(from: .error).count == 1 }
        }
        #expect(events.messages(from: .error) == ["the history's lineage was lost, a new epoch begins"])
        let head = try await temporary.store.currentToken()
        #expect(head.epoch == 2)
        #expect(try await temporary.store.consumers().allSatisfy { $0.state == .resyncing && $0.acknowledged == nil })
        #expect(await cleaner.status().newEpochs == 1)
        #expect(try await temporary.purged().mark.sequence == tokens[18].sequence)
    }

    @Test("stopped under a foreign lock it ends without an error")
    func stoppedUnderLock() async throws {
        var storeOptions = HistoryStore.Options()
        storeOptions.busyTimeout = .milliseconds(50)
        let temporary = try await TemporaryStore.cleanable(10, options: storeOptions)
        let tokens = try await temporary.transactions().map(\.token)
        try await temporary.store.register(consumer: "a", author: "orders")
        try await temporary.store.acknowledge(tokens[7], consumer: "a")
        let lock = try await SQLiteConnection.open(temporary.path)
        try await lock.run { try $0.execute("BEGIN IMMEDIATE") }
        let events = CleanerEvents()
        var options = HistoryCleaner.Options()
        options.cleanOnStart = true
        options.logger = events
        try await HistoryCleaner(temporary.store, options: options).running { _ in
            try await events.wait { events.messages(from: .debug).count >= 2 }
        }
        #expect(try await temporary.sequences().count == 10)
        #expect(events.messages(from: .warning).count == 1)
        try await lock.run { try $0.execute("ROLLBACK") }
    }

    @Test("what does not pass by itself is told at every attempt, and in the status, until it is repaired")
    func lastingTrouble() async throws {
        let (temporary, _) = try await Self.store(10, ["a": 8])
        let other = try await SQLiteConnection.open(temporary.path)
        try await other.run { try $0.execute("ALTER TABLE history_consumer RENAME TO elsewhere") }
        let events = CleanerEvents()
        var options = HistoryCleaner.Options()
        options.cleanOnStart = true
        options.logger = events
        options.tick = .milliseconds(1)
        try await HistoryCleaner(temporary.store, options: options).running { cleaner in
            try await events.wait { events.messages(from: .error).count >= 3 }
            let failure = try #require(await cleaner.status().failure)
            #expect(failure.contains("history_consumer"))
            try await other.run { try $0.execute("ALTER TABLE elsewhere RENAME TO history_consumer") }
            try await events.wait { events.messages(from: .info).contains("cleaned") }
            while await cleaner.status().failure != nil { await Task.yield() }
        }
        #expect(try await temporary.sequences() == Array(8...10))
    }
}

/// A clock that tells that it was looked at.
struct CountingClock: HistoryClock {
    let clock: TestClock
    let looked: @Sendable () -> Void

    var microseconds: Int64 {
        looked()
        return clock.microseconds
    }
}
