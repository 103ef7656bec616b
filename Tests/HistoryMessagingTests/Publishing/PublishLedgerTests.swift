import Testing

@testable import HistoryMessaging

@Suite("Publish ledger")
struct PublishLedgerTests {
    @Test("confirmed through is, by origin, the largest sequence before which nothing of that origin is open")
    func byOrigin() {
        var ledger = PublishLedger(after: 10)
        for (sequence, origin) in [(11, "a"), (12, "b"), (14, "a"), (15, "b"), (19, "a")] {
            ledger.add(Int64(sequence), origin)
        }
        ledger.read(through: 20)
        #expect(ledger.pending == 5)
        #expect(ledger.settledThrough == 10)
        #expect(ledger.confirmedThrough() == [:])
        // Out of order: nothing of b is open before 15, something of a is before 14.
        for sequence in [12, 14, 15] { ledger.settle(Int64(sequence)) }
        ledger.advance()
        #expect(ledger.confirmedThrough() == ["b": 15])
        #expect(ledger.settledThrough == 10)
        ledger.settle(11)
        ledger.advance()
        #expect(ledger.confirmedThrough() == ["a": 14, "b": 15])
        #expect(ledger.settledThrough == 18)
        ledger.settle(19)
        ledger.settle(19)
        ledger.advance()
        #expect(ledger.confirmedThrough() == ["a": 19, "b": 15])
        #expect(ledger.settledThrough == 20)
        #expect(ledger.pending == 0)
    }

    @Test("what an earlier run has confirmed is not published again")
    func earlierRun() {
        var ledger = PublishLedger(after: 0, confirmed: ["a": 5])
        #expect(ledger.isConfirmed(5, "a"))
        #expect(!ledger.isConfirmed(6, "a"))
        #expect(!ledger.isConfirmed(1, "b"))
        ledger.settle(3)
        ledger.add(6, "a")
        ledger.keepOnly([])
        #expect(ledger.confirmedThrough() == ["a": 5])
    }

    @Test("an origin that writes no more is forgotten once nothing of it is open")
    func forgotten() {
        var ledger = PublishLedger(after: 0)
        ledger.add(1, "a")
        ledger.add(2, "b")
        ledger.settle(1)
        ledger.advance()
        ledger.keepOnly(["b"])
        #expect(ledger.confirmedThrough() == [:])
        #expect(ledger.settledThrough == 1)
    }
}
