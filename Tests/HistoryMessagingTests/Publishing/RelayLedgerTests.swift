import FoundationEssentials
import PersistentHistory
import Testing

@testable import HistoryMessaging

/// Who publishes what, with instants instead of waiting.
@Suite("Relay ledger")
struct RelayLedgerTests {
    private static let store = UUID()
    private let start = ContinuousClock.now
    private var ledger = RelayLedger(after: Self.token(0), grace: .seconds(5), capacity: 10)

    private static func token(_ sequence: Int64) -> HistoryToken {
        HistoryToken(storeID: store, epoch: 1, sequence: sequence, nonce: UInt64(sequence))
    }

    private func transactions(_ origins: String, from first: Int64 = 1) -> [OriginOfTransaction] {
        origins.enumerated().map {
            OriginOfTransaction(token: Self.token(first + Int64($0.offset)), origin: String($0.element))
        }
    }

    private func row(_ origin: String, _ confirmed: Int64, _ heartbeat: Int64 = 1) -> PublisherRecord {
        PublisherRecord(origin: origin, confirmed: confirmed, heartbeat: heartbeat)
    }

    private mutating func claim(at seconds: Double, limit: Int = 100) -> [Int64] {
        ledger.claim(limit, at: start + .seconds(seconds))?.1.map(\.token.sequence) ?? []
    }

    @Test("what has no publisher is claimed at once, and published through advances over all that is confirmed")
    mutating func strangers() {
        ledger.append(transactions("aba"), at: start)
        #expect(claim(at: 0, limit: 2) == [1, 2])
        #expect(claim(at: 0) == [3])
        #expect(claim(at: 100) == [])
        ledger.settle([2, 3])
        #expect(ledger.publishedThrough == Self.token(0))
        ledger.settle([1])
        #expect(ledger.publishedThrough == Self.token(3))
        #expect(ledger.end == ledger.publishedThrough)
    }

    @Test(
        "a publisher that is alive is left alone until it has been silent for the grace period while something waited")
    mutating func silence() {
        ledger.update([row("a", 0)], at: start)
        // Idle for an hour, and then it writes: the grace begins with that.
        ledger.append(transactions("aa"), at: start + .seconds(3600))
        #expect(claim(at: 3604.9) == [])
        #expect(ledger.nextDeath == start + .seconds(3605))
        ledger.update([row("a", 0, 2)], at: start + .seconds(3604))
        #expect(claim(at: 3608.9) == [])
        ledger.update([row("a", 1, 2)], at: start + .seconds(3608))
        #expect(ledger.publishedThrough == Self.token(1))
        #expect(claim(at: 3612.9) == [])
        #expect(claim(at: 3613) == [2])
    }

    @Test("a publisher that says that it has ended is taken over at once, from what it has confirmed on")
    mutating func ended() {
        ledger.update([row("a", 2)], at: start)
        ledger.append(transactions("aaaa"), at: start)
        #expect(ledger.publishedThrough == Self.token(2))
        #expect(claim(at: 1) == [])
        ledger.update([row("a", 3, 0)], at: start + .seconds(1))
        #expect(ledger.publishedThrough == Self.token(3))
        #expect(ledger.claim(9, at: start + .seconds(1))?.after == Self.token(3))
        ledger.update([], at: start + .seconds(2))
        ledger.settle([4])
        #expect(ledger.publishedThrough == Self.token(4))
    }

    @Test("the dead one's transactions are claimed from between those of one that is alive")
    mutating func mixed() {
        ledger.update([row("a", 0)], at: start)
        ledger.append(transactions("abab"), at: start)
        #expect(claim(at: 1) == [2, 4])
        ledger.settle([2, 4])
        #expect(ledger.publishedThrough == Self.token(0))
        ledger.update([row("a", 3, 2)], at: start + .seconds(1))
        #expect(ledger.publishedThrough == Self.token(4))
    }

    @Test("it holds no more than its bound, and what could not be published is claimed again")
    mutating func bound() {
        ledger.append(transactions("aaaaaaaaaa"), at: start)
        #expect(ledger.room == 0)
        #expect(claim(at: 0, limit: 3) == [1, 2, 3])
        ledger.release([2, 3], at: start)
        ledger.settle([1])
        #expect(ledger.room == 1)
        #expect(claim(at: 0, limit: 2) == [2, 3])
    }

    @Test("a publisher that has confirmed all, and has not changed for long, is forgotten")
    mutating func silent() {
        ledger.update([row("a", 2), row("b", 5)], at: start)
        ledger.append(transactions("aa"), at: start)
        #expect(ledger.silent(for: .seconds(600), at: start + .seconds(599)) == [])
        #expect(ledger.silent(for: .seconds(600), at: start + .seconds(600)) == [row("a", 2)])
    }
}
