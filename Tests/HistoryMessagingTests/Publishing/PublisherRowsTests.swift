import PersistentHistory
import Testing

@testable import HistoryMessaging

@Suite("Publisher rows")
struct PublisherRowsTests {
    @Test("idle, nothing is due; what is confirmed is due at once, then every 250 ms; a heartbeat every two seconds")
    func due() throws {
        var rows = PublisherRows()
        rows.didWrite(rows.next([:], ["a"]))
        let begun = ContinuousClock.now
        #expect(rows.due([:], isBusy: false) == nil)
        let beat = try #require(rows.due([:], isBusy: true))
        #expect(beat <= begun + .seconds(2) && beat > begun + .seconds(1))
        #expect(try #require(rows.due(["a": 5], isBusy: true)) <= .now)
        rows.didWrite(rows.next(["a": 5], ["a"]))
        #expect(rows.due(["a": 5], isBusy: false) == nil)
        let next = try #require(rows.due(["a": 6], isBusy: true))
        #expect(next <= .now + .milliseconds(250) && next > begun + .milliseconds(200))
        // Where the store cannot be written now, a second passes.
        rows.hold()
        #expect(try #require(rows.due(["a": 6], isBusy: true)) > .now + .milliseconds(900))
    }

    @Test("the heartbeat always grows, and every row has the same")
    func heartbeat() {
        var rows = PublisherRows()
        var last: Int64 = 0
        for _ in 0..<1000 {
            let records = rows.next(["b": 3], ["a"])
            #expect(records.map(\.origin).sorted() == ["a", "b"])
            #expect(Set(records.map(\.heartbeat)) == [rows.heartbeat])
            #expect(rows.heartbeat > last)
            last = rows.heartbeat
        }
    }
}
