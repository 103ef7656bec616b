import PersistentHistory
import Testing
import TidingsAMQP
import TidingsTestKit

@testable import HistoryMessaging

@Suite("When and whom the cleaner obeys")
struct CleaningRulesTests {
    private static let minute: Int64 = 60_000_000

    @Test("PHT25: none is never due")
    func never() {
        var schedule = CleaningSchedule(.none)
        schedule.acknowledged(1_000_000)
        #expect(!schedule.isDue(at: 0) && !schedule.isDue(at: .max))
    }

    @Test("PHT25: by duration: the first at once, then one an interval; a refused attempt uses up no slot")
    func byDuration() {
        var schedule = CleaningSchedule(.byDuration(.seconds(600)))
        #expect(schedule.isDue(at: 5 * Self.minute))
        // Refused: nothing was told, and it stays due.
        #expect(schedule.isDue(at: 6 * Self.minute))
        schedule.cleaned(at: 6 * Self.minute, known: 0)
        #expect(!schedule.isDue(at: 6 * Self.minute))
        #expect(!schedule.isDue(at: 16 * Self.minute - 1))
        #expect(schedule.isDue(at: 16 * Self.minute))
        schedule.cleaned(at: 20 * Self.minute, known: 0)
        #expect(!schedule.isDue(at: 29 * Self.minute))
        // A clock that was set back by a year must not put it off by one.
        #expect(schedule.isDue(at: 1))
        schedule.acknowledged(1000)
        #expect(!schedule.isDue(at: 21 * Self.minute))
    }

    @Test("PHT25: by acknowledgements: every n-th; a refused attempt uses up no slot")
    func byAcknowledgements() {
        var schedule = CleaningSchedule(.byAcknowledgements(3))
        var cleanings: [Int] = []
        for number in 1...10 {
            schedule.acknowledged(1)
            // Refused at the third.
            guard schedule.isDue(at: 0), number != 3 else { continue }
            cleanings.append(number)
            schedule.cleaned(at: 0, known: schedule.acknowledgements)
        }
        #expect(cleanings == [4, 6, 9])
        // Many at once are one cleaning, and the rest counts on: 1 + 7 is twice three, and two more.
        schedule.acknowledged(7)
        #expect(schedule.isDue(at: 0))
        schedule.cleaned(at: 0, known: schedule.acknowledgements)
        #expect(!schedule.isDue(at: 0))
        schedule.acknowledged(1)
        #expect(schedule.isDue(at: 0))
        // What comes while it is cleaned counts for the next.
        let known = schedule.acknowledgements
        schedule.acknowledged(3)
        schedule.cleaned(at: 0, known: known)
        #expect(schedule.isDue(at: 0))
    }

    @Test(
        "options that mean nothing are refused",
        arguments: [CleaningStrategy.byDuration(.zero), .byAcknowledgements(0)])
    func badOptions(strategy: CleaningStrategy) {
        var options = HistoryCleaner.Options()
        options.strategy = strategy
        #expect(throws: MessagingError.self) { try options.validate() }
    }

    @Test("the memory of replies is bounded, and keeps users apart")
    func replyMemory() {
        var memory = ReplyMemory(limit: 3)
        func key(_ number: Int, _ user: String = "a") -> ReplyMemory.Key {
            ReplyMemory.Key(user: user, messageID: String(number))
        }
        func reply(_ number: Int) -> ControlReply {
            ControlReply(isOK: true, service: "cleaner", message: String(number))
        }
        for number in 0..<8 {
            memory.keep(reply(number), to: key(number))
            let known = (0..<8).filter { memory.reply(to: key($0)) != nil }
            #expect(known == Array(max(0, number - 2)...number))
        }
        #expect(memory.reply(to: key(7))?.message == "7")
        #expect(memory.reply(to: key(7, "b")) == nil)
    }

    private let checks = IncomingChecks(
        names: BrokerNames(prefix: "p", store: "s"), commandUsers: ["clean": ["ops"]])

    private func reason(
        _ command: String, by user: String?, key: String, exchange: String = "p.control", checks: IncomingChecks? = nil
    ) -> String? {
        do throws(MessageRefusal) {
            _ = try (checks ?? self.checks).command(
                ControlRequest(command).message(user: user), AMQPAddress(exchange: exchange, routingKey: key))
            return nil
        } catch { return error.reason.rawValue }
    }

    @Test("a command counts under its own key, from a user who may give it, by the exchange of commands")
    func commands() {
        #expect(reason("clean", by: "ops", key: "control.s.cleaner.clean") == nil)
        #expect(reason("clean", by: "ops", key: "control.s.all.clean") == nil)
        #expect(reason("clean", by: "bob", key: "control.s.cleaner.clean") == "notAllowed")
        #expect(reason("clean", by: nil, key: "control.s.cleaner.clean") == "noUser")
        // Who may only register must not clean under that key.
        #expect(reason("clean", by: "ops", key: "control.s.cleaner.register") == "otherKey")
        #expect(reason("clean", by: "ops", key: "control.t.cleaner.clean") == "otherKey")
        #expect(reason("clean", by: "ops", key: "control.s.cleaner.clean", exchange: "") == "foreignExchange")
        #expect(reason("register", by: "bob", key: "control.s.cleaner.register") == nil)
        // Nobody but those who are named may delete history; all who have a name may ask and register.
        let usual = IncomingChecks(names: BrokerNames(prefix: "p", store: "s"))
        for command in ["clean", "register", "status", "dry-run", "explode"] {
            let refused = reason(command, by: "bob", key: "control.s.cleaner.\(command)", checks: usual)
            #expect(refused == (command == "clean" ? "notAllowed" : nil), "\(command)")
        }
    }
}
