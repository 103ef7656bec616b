import Testing
import TidingsTestKit

@testable import TidingsAMQP

struct SettlementStateMachineTests {
    private typealias Action = SettlementStateMachine.Action

    private static func machine(_ count: UInt64) throws(AMQPError) -> SettlementStateMachine {
        var machine = SettlementStateMachine()
        for tag in 0..<count { try machine.delivered(tag: tag + 1) }
        return machine
    }

    private static func ack(_ machine: inout SettlementStateMachine, _ tags: [UInt64]) {
        for tag in tags { #expect(machine.ack(tag: tag) == true) }
    }

    @Test("Nothing settled is nothing to tell")
    func nothing() throws {
        var machine = try Self.machine(3)
        #expect(machine.takeActions() == [])
        #expect(machine.freshCount == 0)
    }

    @Test("One ack goes out as a single one")
    func single() throws {
        var machine = try Self.machine(3)
        Self.ack(&machine, [1])
        #expect(machine.freshCount == 1)
        #expect(machine.takeActions() == [.ack(tag: 1, isMultiple: false)])
        #expect(machine.freshCount == 0)
        #expect(machine.takeActions() == [])
    }

    @Test("Acks that follow each other from the oldest on go out as one")
    func coalesced() throws {
        var machine = try Self.machine(5)
        Self.ack(&machine, [1, 2, 3, 4])
        #expect(machine.takeActions() == [.ack(tag: 4, isMultiple: true)])
        Self.ack(&machine, [5])
        #expect(machine.takeActions() == [.ack(tag: 5, isMultiple: false)])
    }

    @Test("Acks in any order go out as one where they leave no gap")
    func reversed() throws {
        var machine = try Self.machine(4)
        Self.ack(&machine, [4, 2, 1, 3])
        #expect(machine.takeActions() == [.ack(tag: 4, isMultiple: true)])
    }

    @Test("Acks behind a delivery that is unsettled go out one by one, and not again when the gap closes")
    func outOfOrder() throws {
        var machine = try Self.machine(5)
        Self.ack(&machine, [4, 2])
        #expect(machine.takeActions() == [.ack(tag: 4, isMultiple: false), .ack(tag: 2, isMultiple: false)])
        Self.ack(&machine, [1])
        #expect(machine.takeActions() == [.ack(tag: 1, isMultiple: false)])
        Self.ack(&machine, [3, 5])
        // 4 is settled at the broker: an ack of many passes over it.
        #expect(machine.takeActions() == [.ack(tag: 5, isMultiple: true)])
    }

    @Test("An ack of many names the last acked delivery, not one that the broker has settled")
    func lastOfMany() throws {
        var machine = try Self.machine(3)
        #expect(machine.reject(tag: 3, requeue: false) == true)
        Self.ack(&machine, [1, 2])
        #expect(machine.takeActions() == [.reject(tag: 3, requeue: false), .ack(tag: 2, isMultiple: true)])
    }

    @Test("Rejections go out before the ack of many that would take them with it")
    func rejectsFirst() throws {
        var machine = try Self.machine(4)
        Self.ack(&machine, [1, 2])
        #expect(machine.reject(tag: 3, requeue: true) == true)
        Self.ack(&machine, [4])
        #expect(machine.takeActions() == [.reject(tag: 3, requeue: true), .ack(tag: 4, isMultiple: true)])
    }

    @Test("A rejection alone is told, with or without requeueing", arguments: [false, true])
    func reject(requeue: Bool) throws {
        var machine = try Self.machine(2)
        #expect(machine.reject(tag: 1, requeue: requeue) == true)
        #expect(machine.takeActions() == [.reject(tag: 1, requeue: requeue)])
        Self.ack(&machine, [2])
        #expect(machine.takeActions() == [.ack(tag: 2, isMultiple: false)])
    }

    @Test("Settling a second time is false, before and after the broker was told, and tells nothing")
    func repeated() throws {
        var machine = try Self.machine(3)
        Self.ack(&machine, [1, 3])
        #expect(machine.ack(tag: 1) == false)
        #expect(machine.reject(tag: 1, requeue: true) == false)
        #expect(machine.takeActions() == [.ack(tag: 1, isMultiple: false), .ack(tag: 3, isMultiple: false)])
        #expect(machine.ack(tag: 1) == false)
        #expect(machine.ack(tag: 3) == false)
        #expect(machine.reject(tag: 3, requeue: false) == false)
        #expect(machine.freshCount == 0)
        #expect(machine.takeActions() == [])
    }

    @Test("A tag that never came is false", arguments: [0, 3, 4, UInt64(Int.max) + 2, .max])
    func unknown(tag: UInt64) throws {
        var machine = try Self.machine(2)
        #expect(machine.ack(tag: tag) == false)
        #expect(machine.reject(tag: tag, requeue: true) == false)
        #expect(machine.takeActions() == [])
    }

    @Test("Tags that do not count up from 1 are a violation", arguments: [0, 2, 3, UInt64.max])
    func order(tag: UInt64) throws {
        var machine = SettlementStateMachine()
        let expected = AMQPError(.protocolViolation, "the broker's delivery tags are not in order: \(tag)")
        #expect(throws: expected) { try machine.delivered(tag: tag) }
        try machine.delivered(tag: 1)
        #expect(throws: AMQPError.self) { try machine.delivered(tag: 1) }
        Self.ack(&machine, [1])
        _ = machine.takeActions()
        #expect(throws: AMQPError.self) { try machine.delivered(tag: 1) }
        try machine.delivered(tag: 2)
    }

    // MARK: Against a broker

    /// The broker's side of a channel: closes it, as RabbitMQ does with 406, where it is told of a tag that is not
    /// unsettled.
    private struct Broker {
        enum End: Hashable {
            case acked
            case rejected(requeue: Bool)
        }

        var unsettled: Set<UInt64> = []
        var settled: [UInt64: End] = [:]

        /// Whether the channel is still open.
        mutating func take(_ action: Action) -> Bool {
            switch action {
            case .ack(let tag, let isMultiple):
                guard unsettled.contains(tag) else { return false }
                for each in isMultiple ? unsettled.filter({ $0 <= tag }) : [tag] { settle(each, .acked) }
            case .reject(let tag, let requeue):
                guard unsettled.contains(tag) else { return false }
                settle(tag, .rejected(requeue: requeue))
            }
            return true
        }

        private mutating func settle(_ tag: UInt64, _ end: End) {
            unsettled.remove(tag)
            settled[tag] = end
        }
    }

    @Test(
        "In 20,000 random events the broker is told of each settlement once, and of nothing else",
        arguments: [1, 2, 3, 4] as [UInt64])
    func broker(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var machine = SettlementStateMachine()
        var broker = Broker()
        var last: UInt64 = 0
        var expected: [UInt64: Broker.End] = [:]
        func flush() throws {
            for action in machine.takeActions() {
                try #require(broker.take(action) == true, "\(action): unknown delivery tag")
            }
            try #require(broker.settled == expected)
        }
        for _ in 0..<20_000 {
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<40:
                last += 1
                broker.unsettled.insert(last)
                try machine.delivered(tag: last)
            case 40..<85:
                // Mostly old ones, as a consumer settles; now and then any, one that is settled, or one that never came.
                let low = last > 12 ? last - 12 : 0
                let tag =
                    random.oneIn(8)
                    ? UInt64.random(in: 0...(last + 2), using: &random) : UInt64.random(in: low...last, using: &random)
                let mayBeSettled = tag > 0 && tag <= last && expected[tag] == nil
                if random.oneIn(6) {
                    let requeue = random.oneIn(2)
                    #expect(machine.reject(tag: tag, requeue: requeue) == mayBeSettled)
                    if mayBeSettled { expected[tag] = .rejected(requeue: requeue) }
                } else {
                    #expect(machine.ack(tag: tag) == mayBeSettled)
                    if mayBeSettled { expected[tag] = .acked }
                }
            case 85..<90:
                // Everything: what is behind a gap comes together with what closes it.
                for tag in broker.unsettled.sorted() where expected[tag] == nil {
                    #expect(machine.ack(tag: tag) == true)
                    expected[tag] = .acked
                }
            default: try flush()
            }
        }
        try flush()
        #expect(broker.unsettled.count + broker.settled.count == Int(last))
    }
}
