import Testing
import TidingsTestKit

@testable import TidingsAMQP

struct BackoffTests {
    @Test("Delays double from the first to the longest, and stay there")
    func doubling() {
        let backoff = Backoff(first: .milliseconds(500), longest: .seconds(30))
        let delays = (1...9).map { backoff.delay(attempt: $0, random: 1) / .milliseconds(1) }
        #expect(delays == [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000])
    }

    @Test("Jitter takes up to half of a delay away")
    func jitter() {
        let backoff = Backoff(first: .milliseconds(500), longest: .seconds(30))
        #expect(backoff.delay(attempt: 2, random: 0) == .milliseconds(500))
        #expect(backoff.delay(attempt: 2, random: 0.5) == .milliseconds(750))
        #expect(backoff.delay(attempt: 20, random: 0) == .seconds(15))
        var random = SeededGenerator(seed: 1)
        for attempt in 1...1000 {
            let whole = backoff.delay(attempt: attempt, random: 1)
            let delay = backoff.delay(attempt: attempt, random: .random(in: 0..<1, using: &random))
            #expect(delay >= whole / 2)
            #expect(delay < whole)
        }
    }

    @Test("Any number of attempts has a delay", arguments: [Int.min, -1, 0, 1, 21, 64, .max])
    func extremes(attempt: Int) {
        let delay = Backoff(first: .milliseconds(500), longest: .seconds(30)).delay(attempt: attempt, random: 1)
        #expect(delay == (attempt > 1 ? .seconds(30) : .milliseconds(500)))
    }

    @Test("A first delay of however little grows to the longest")
    func little() {
        let backoff = Backoff(first: .microseconds(1), longest: .seconds(30))
        #expect(backoff.delay(attempt: 60, random: 1) == .seconds(30))
    }

    @Test("The longest bounds the first; without delays there is none")
    func degenerate() {
        #expect(Backoff(first: .seconds(60), longest: .seconds(1)).delay(attempt: 1, random: 1) == .seconds(1))
        #expect(Backoff(first: .zero, longest: .seconds(1)).delay(attempt: 9, random: 1) == .zero)
        #expect(
            Backoff(first: .seconds(Int64.max), longest: .seconds(Int64.max)).delay(attempt: 1, random: 1)
                > .seconds(1 << 62))
    }
}
