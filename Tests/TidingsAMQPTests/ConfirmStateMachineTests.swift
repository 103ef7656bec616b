import Testing
import TidingsTestKit

@testable import TidingsAMQP

struct ConfirmStateMachineTests {
    private struct Outcome: Hashable {
        var slot: Int
        var result: PublishResult
    }

    /// A machine with slots 1, 2, … of 10 bytes each, so that a slot is its tag.
    private static func machine(_ count: Int) -> ConfirmStateMachine<Int> {
        var machine = ConfirmStateMachine<Int>()
        for slot in 0..<count { machine.written(slot + 1, size: 10, at: .now) }
        return machine
    }

    private static func answer(
        _ machine: inout ConfirmStateMachine<Int>, _ tag: UInt64, isMultiple: Bool = false, isNack: Bool = false
    ) throws(AMQPError) -> [Outcome] {
        var outcomes: [Outcome] = []
        try machine.answered(tag: tag, isMultiple: isMultiple, isNack: isNack) {
            outcomes.append(Outcome(slot: $0, result: $1))
        }
        return outcomes
    }

    private static func abandon(_ machine: inout ConfirmStateMachine<Int>) -> [Int] {
        var slots: [Int] = []
        machine.abandon { slots.append($0) }
        return slots
    }

    private static func confirmed(_ slots: ClosedRange<Int>) -> [Outcome] {
        slots.map { Outcome(slot: $0, result: .confirmed) }
    }

    @Test("Tags count from 1 in the order of writing")
    func tags() throws {
        var machine = ConfirmStateMachine<Int>()
        #expect((0..<3).map { machine.written($0, size: 0, at: .now) } == [1, 2, 3])
        _ = try Self.answer(&machine, 2, isMultiple: true)
        #expect(machine.written(3, size: 0, at: .now) == 4)
    }

    @Test("A single ack confirms its message alone")
    func single() throws {
        var machine = Self.machine(3)
        #expect(try Self.answer(&machine, 1) == Self.confirmed(1...1))
        #expect(machine.count == 2)
        #expect(machine.bytes == 20)
    }

    @Test("A multiple ack confirms all up to its tag, in order")
    func multiple() throws {
        var machine = Self.machine(5)
        #expect(try Self.answer(&machine, 3, isMultiple: true) == Self.confirmed(1...3))
        #expect(machine.count == 2)
    }

    @Test("A multiple ack of tag 0 confirms all that is unanswered")
    func zero() throws {
        var machine = Self.machine(4)
        _ = try Self.answer(&machine, 1)
        #expect(try Self.answer(&machine, 0, isMultiple: true) == Self.confirmed(2...4))
        #expect(machine.count == 0)
        #expect(try Self.answer(&machine, 0, isMultiple: true) == [])
        var fresh = ConfirmStateMachine<Int>()
        #expect(try Self.answer(&fresh, 0, isMultiple: true) == [])
    }

    @Test("Acks out of order confirm what they name; a multiple one after them only the rest")
    func outOfOrder() throws {
        var machine = Self.machine(5)
        #expect(try Self.answer(&machine, 4) == Self.confirmed(4...4))
        #expect(try Self.answer(&machine, 2) == Self.confirmed(2...2))
        #expect(
            try Self.answer(&machine, 5, isMultiple: true)
                == [1, 3, 5].map { Outcome(slot: $0, result: .confirmed) })
        #expect(machine.count == 0)
        #expect(machine.bytes == 0)
    }

    @Test("A nack says so, of one message and of many")
    func nack() throws {
        var machine = Self.machine(3)
        #expect(try Self.answer(&machine, 2, isNack: true) == [Outcome(slot: 2, result: .nacked)])
        #expect(
            try Self.answer(&machine, 3, isMultiple: true, isNack: true)
                == [Outcome(slot: 1, result: .nacked), Outcome(slot: 3, result: .nacked)])
    }

    @Test("A message that came back is returned when it is acked, not before")
    func returned() throws {
        var machine = Self.machine(3)
        #expect(machine.returned(code: 312, text: "NO_ROUTE") { $0 == 2 } == true)
        #expect(machine.count == 3)
        #expect(
            try Self.answer(&machine, 3, isMultiple: true) == [
                Outcome(slot: 1, result: .confirmed),
                Outcome(slot: 2, result: .returned(code: 312, text: "NO_ROUTE")),
                Outcome(slot: 3, result: .confirmed),
            ])
    }

    @Test("A message that came back and is nacked is nacked: it may be sent again")
    func returnedThenNacked() throws {
        var machine = Self.machine(1)
        #expect(machine.returned(code: 312, text: "NO_ROUTE") { _ in true } == true)
        #expect(try Self.answer(&machine, 1, isNack: true) == [Outcome(slot: 1, result: .nacked)])
    }

    @Test("Of equal messages each that comes back is another one, in order")
    func equalMessages() throws {
        var machine = Self.machine(4)
        // 2 and 3 are equal.
        let isEqual = { (slot: Int) in slot == 2 || slot == 3 }
        #expect(machine.returned(code: 312, text: "first", where: isEqual) == true)
        #expect(machine.returned(code: 312, text: "second", where: isEqual) == true)
        #expect(machine.returned(code: 312, text: "third", where: isEqual) == false)
        #expect(
            try Self.answer(&machine, 0, isMultiple: true) == [
                Outcome(slot: 1, result: .confirmed),
                Outcome(slot: 2, result: .returned(code: 312, text: "first")),
                Outcome(slot: 3, result: .returned(code: 312, text: "second")),
                Outcome(slot: 4, result: .confirmed),
            ])
    }

    @Test("What comes back and matches no unanswered message is nobody's")
    func foreignReturn() throws {
        var machine = Self.machine(3)
        _ = try Self.answer(&machine, 2)
        #expect(machine.returned(code: 312, text: "") { $0 == 9 } == false)
        #expect(machine.returned(code: 312, text: "") { $0 == 2 } == false)
        #expect(try Self.answer(&machine, 3, isMultiple: true).map(\.slot) == [1, 3])
        #expect(machine.returned(code: 312, text: "") { _ in true } == false)
    }

    @Test("A tag that was never given is a violation, and changes nothing", arguments: [false, true])
    func unknownTag(isMultiple: Bool) throws {
        var machine = Self.machine(2)
        for tag in [3, 4, UInt64.max] {
            let error = #expect(throws: AMQPError.self) { try Self.answer(&machine, tag, isMultiple: isMultiple) }
            #expect(error == AMQPError(.protocolViolation, "the broker confirmed publication \(tag) of 2"))
        }
        #expect(machine.count == 2)
        #expect(try Self.answer(&machine, 2, isMultiple: true) == Self.confirmed(1...2))
    }

    @Test("Tag 0 of a single ack is a violation")
    func zeroSingle() {
        var machine = Self.machine(1)
        let error = #expect(throws: AMQPError.self) { try Self.answer(&machine, 0) }
        #expect(error?.code == .protocolViolation)
        #expect(machine.count == 1)
    }

    @Test("A tag that is answered already is ignored, within the window and behind it")
    func answeredTwice() throws {
        var machine = Self.machine(3)
        #expect(try Self.answer(&machine, 2) == Self.confirmed(2...2))
        #expect(try Self.answer(&machine, 2, isNack: true) == [])
        #expect(try Self.answer(&machine, 1) == Self.confirmed(1...1))
        #expect(try Self.answer(&machine, 1) == [])
        #expect(try Self.answer(&machine, 2, isMultiple: true, isNack: true) == [])
        #expect(machine.count == 1)
        #expect(machine.bytes == 10)
    }

    @Test("Abandoning resolves what is unanswered alone, and starts anew at tag 1")
    func abandon() throws {
        var machine = Self.machine(4)
        _ = try Self.answer(&machine, 1)
        _ = try Self.answer(&machine, 3)
        _ = machine.returned(code: 312, text: "") { $0 == 4 }
        #expect(Self.abandon(&machine) == [2, 4])
        #expect(machine.count == 0)
        #expect(machine.bytes == 0)
        #expect(machine.oldest == nil)
        #expect(machine.written(7, size: 1, at: .now) == 1)
        #expect(machine.returned(code: 313, text: "") { $0 == 7 } == true)
        #expect(try Self.answer(&machine, 1) == [Outcome(slot: 7, result: .returned(code: 313, text: ""))])
        #expect(Self.abandon(&machine) == [])
    }

    @Test("The window counts messages and bytes of what is unanswered")
    func window() throws {
        var machine = ConfirmStateMachine<Int>()
        var counts: [[Int]] = []
        for size in [5, 0, 100] {
            machine.written(size, size: size, at: .now)
            counts.append([machine.count, machine.bytes])
        }
        for tag: UInt64 in [3, 1, 2] {
            _ = try Self.answer(&machine, tag)
            counts.append([machine.count, machine.bytes])
        }
        #expect(counts == [[1, 5], [2, 5], [3, 105], [2, 5], [1, 0], [0, 0]])
    }

    @Test("The oldest is the first unanswered message, whatever is answered behind it")
    func oldest() throws {
        let start = ContinuousClock.now
        var machine = ConfirmStateMachine<Int>()
        #expect(machine.oldest == nil)
        for second in 0..<3 { machine.written(second, size: 0, at: start + .seconds(second)) }
        _ = try Self.answer(&machine, 2)
        #expect(machine.oldest == start)
        _ = try Self.answer(&machine, 1)
        #expect(machine.oldest == start + .seconds(2))
        _ = try Self.answer(&machine, 3)
        #expect(machine.oldest == nil)
    }

    @Test("The first unanswered message that a condition names is found")
    func firstUnanswered() throws {
        var machine = Self.machine(5)
        _ = try Self.answer(&machine, 2)
        #expect(machine.firstUnanswered { $0 > 1 } == 3)
        #expect(machine.firstUnanswered { $0 == 2 } == nil)
    }

    @Test("A message that is answered is let go of, though an older one is not")
    func memory() throws {
        final class Body {}
        var machine = ConfirmStateMachine<Body>()
        machine.written(Body(), size: 0, at: .now)
        let body = Body()
        weak let answered = body
        machine.written(consume body, size: 0, at: .now)
        #expect(answered != nil)
        try machine.answered(tag: 2, isMultiple: false, isNack: false) { _, _ in }
        #expect(answered == nil)
        #expect(machine.count == 1)
    }

    // MARK: Against a model

    /// The same by dictionaries, in the plainest way.
    private struct Model {
        struct Message {
            var slot: Int
            var size: Int
            var returned: String?
        }

        var unanswered: [UInt64: Message] = [:]
        var last: UInt64 = 0
        var lastReturn: UInt64 = 0

        mutating func answered(_ tag: UInt64, isMultiple: Bool, isNack: Bool) -> [Outcome]? {
            guard tag <= last, tag > 0 || isMultiple else { return nil }
            let upTo = tag == 0 ? last : tag
            let tags = unanswered.keys.filter { isMultiple ? $0 <= upTo : $0 == upTo }.sorted()
            return tags.map { tag in
                let message = unanswered.removeValue(forKey: tag)!
                if isNack { return Outcome(slot: message.slot, result: .nacked) }
                let returned = message.returned.map { PublishResult.returned(code: 312, text: $0) }
                return Outcome(slot: message.slot, result: returned ?? .confirmed)
            }
        }

        mutating func returned(_ text: String, where matches: (Int) -> Bool) -> Bool {
            let tags = unanswered.keys.filter { $0 > lastReturn && matches(unanswered[$0]!.slot) }
            guard let tag = tags.min() else { return false }
            unanswered[tag]!.returned = text
            lastReturn = tag
            return true
        }
    }

    @Test("20,000 random events come out as in a model of dictionaries", arguments: [1, 2, 3] as [UInt64])
    func model(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var machine = ConfirmStateMachine<Int>()
        var model = Model()
        for event in 0..<20_000 {
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<45:
                let size = Int.random(in: 0...1000, using: &random)
                model.last += 1
                model.unanswered[model.last] = Model.Message(slot: event, size: size)
                #expect(machine.written(event, size: size, at: .now) == model.last)
            case 45..<60:
                // Every seventh message is equal to every other seventh one.
                let remainder = Int.random(in: 0..<7, using: &random)
                let isEqual = { (slot: Int) in slot % 7 == remainder }
                #expect(
                    machine.returned(code: 312, text: "\(event)", where: isEqual)
                        == model.returned("\(event)", where: isEqual))
            case 60..<99:
                let isMultiple = random.oneIn(5)
                let isNack = random.oneIn(4)
                let low = model.last > 30 ? model.last - 30 : 0
                let tag = isMultiple && random.oneIn(20) ? 0 : UInt64.random(in: low...(model.last + 1), using: &random)
                if let expected = model.answered(tag, isMultiple: isMultiple, isNack: isNack) {
                    #expect(try Self.answer(&machine, tag, isMultiple: isMultiple, isNack: isNack) == expected)
                } else {
                    #expect(throws: AMQPError.self) {
                        try Self.answer(&machine, tag, isMultiple: isMultiple, isNack: isNack)
                    }
                }
            default:
                guard random.oneIn(10) else { continue }
                #expect(Self.abandon(&machine) == model.unanswered.sorted { $0.key < $1.key }.map(\.value.slot))
                model = Model()
            }
            try #require(machine.count == model.unanswered.count)
            try #require(machine.bytes == model.unanswered.values.reduce(0) { $0 + $1.size })
        }
    }
}
