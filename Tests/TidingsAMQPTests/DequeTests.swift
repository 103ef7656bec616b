import Testing
import TidingsTestKit

@testable import TidingsAMQP

struct DequeTests {
    private static func contents(_ deque: Deque<Int>) -> [Int] { (0..<deque.count).map { deque[$0] } }

    @Test("What is empty has no first element, and gives none")
    func empty() {
        var deque = Deque<Int>()
        #expect(deque.isEmpty)
        #expect(deque.count == 0)
        #expect(deque.first == nil)
        #expect(deque.removeFirst() == nil)
        #expect(deque.removeAll() == [])
    }

    @Test("First in, first out, through growth and around the end of the ring", arguments: [1, 7, 8, 9, 64, 1000])
    func order(count: Int) {
        var deque = Deque<Int>()
        // So that the ring's beginning is not the memory's.
        for number in 0..<5 { deque.append(number) }
        for number in 0..<5 { #expect(deque.removeFirst() == number) }
        for number in 0..<count { deque.append(number) }
        #expect(Self.contents(deque) == Array(0..<count))
        #expect(deque.first == 0)
        #expect((0..<count).map { _ in deque.removeFirst() } == Array(0..<count))
        #expect(deque.isEmpty)
    }

    @Test("An element that is taken out is let go of")
    func release() {
        final class Body {}
        var deque = Deque<Body>()
        var body: Body? = Body()
        weak let last = body
        deque.append(body!)
        body = nil
        #expect(last != nil)
        _ = deque.removeFirst()
        #expect(last == nil)
    }

    @Test("An index that is not there stops the process", .timeLimit(.minutes(5)))
    func bounds() async {
        await #expect(processExitsWith: .failure) {
            var deque = Deque<Int>()
            for number in 0..<3 { deque.append(number) }
            _ = deque.removeFirst()
            _ = deque[2]
        }
        await #expect(processExitsWith: .failure) {
            var deque = Deque<Int>()
            for number in 0..<8 { deque.append(number) }
            // The ring has something there: the last element.
            _ = deque[-1]
        }
    }

    @Test("20,000 random steps come out as in an array", arguments: [1, 2] as [UInt64])
    func model(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var deque = Deque<Int>()
        var array: [Int] = []
        for step in 0..<20_000 {
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<52:
                deque.append(step)
                array.append(step)
            case 52..<90: try #require(deque.removeFirst() == (array.isEmpty ? nil : array.removeFirst()))
            case 90..<96:
                guard !array.isEmpty else { continue }
                let index = Int.random(in: 0..<array.count, using: &random)
                deque[index] = -step
                array[index] = -step
            case 96..<99:
                let remainder = Int.random(in: 0..<5, using: &random)
                deque.removeAll { $0 % 5 == remainder }
                array.removeAll { $0 % 5 == remainder }
            default:
                guard random.oneIn(20) else { continue }
                try #require(deque.removeAll() == array)
                array = []
            }
            try #require(deque.count == array.count)
            try #require(deque.isEmpty == array.isEmpty)
            try #require(deque.first == array.first)
            if step % 50 == 0 { try #require(Self.contents(deque) == array) }
        }
    }
}
