import Foundation
import PersistentHistory
import Testing
import TidingsTestKit

/// Records and tokens by their numbers alone.
private enum Sample {
    static let storeID = UUID()

    static func token(_ sequence: Int64, epoch: Int64 = 1, nonce: UInt64? = nil) -> HistoryToken {
        HistoryToken(storeID: storeID, epoch: epoch, sequence: sequence, nonce: nonce ?? UInt64(sequence) + 100)
    }

    static func consumer(
        _ name: String, at sequence: Int64?, author: String = "orders", role: String = "required",
        state: ConsumerRecord.State = .active, floor: Int64 = 0, epoch: Int64 = 1, user: String? = nil
    ) -> ConsumerRecord {
        ConsumerRecord(
            name: name, author: author, role: role, user: user, state: state, floor: floor, epoch: epoch,
            acknowledged: sequence.map { token($0, epoch: epoch) }, registeredAt: 0, acknowledgedAt: nil)
    }
}

@Suite("Rules of purging")
struct PurgeRulesTests {
    private let mark = Sample.token(2)

    private func decide(
        _ consumers: [ConsumerRecord], _ rules: PurgeRules = PurgeRules(), firstMirror: Int64? = nil
    ) -> PurgeDecision {
        rules.decide(consumers, mark: mark, firstMirror: firstMirror.map { Sample.token($0) })
    }

    @Test("PHT27: the bound is the minimum acknowledged token, and who holds it is named")
    func minimum() {
        let decision = decide([
            Sample.consumer("a", at: 9), Sample.consumer("b", at: 5), Sample.consumer("c", at: 5),
        ])
        #expect(decision.bound == Sample.token(5))
        #expect(decision.holders == ["b", "c"])
        #expect(decision.obstacles == [])
    }

    @Test("PHT26: a required consumer that never acknowledged blocks; all such are named, with the remedy")
    func neverAcknowledged() {
        let decision = decide([
            Sample.consumer("a", at: 9), Sample.consumer("b", at: nil), Sample.consumer("c", at: nil),
        ])
        #expect(decision.bound == nil)
        #expect(decision.obstacles.map(\.kind) == [.neverAcknowledged, .neverAcknowledged])
        #expect(decision.obstacles.map(\.name) == ["b", "c"])
        #expect(
            decision.obstacles.first?.description
                == "the consumer b has never acknowledged: start it, or evict it")
    }

    @Test(
        "PHT26: neither optional, lost, evicted nor batch consumers hold anything",
        arguments: [
            Sample.consumer("x", at: nil, role: "optional"), Sample.consumer("x", at: nil, state: .lost),
            Sample.consumer("x", at: 1, state: .evicted), Sample.consumer("x", at: nil, author: "import"),
        ])
    func notWaitedFor(other: ConsumerRecord) {
        let rules = PurgeRules(batchAuthors: ["import"])
        #expect(decide([Sample.consumer("a", at: 9), other], rules).bound == Sample.token(9))
        #expect(decide([other], rules).obstacles.map(\.kind) == [.nobody])
    }

    @Test("PHT26: each required author needs a consumer that is waited for; a batch author needs none")
    func requiredAuthors() {
        let rules = PurgeRules(requiredAuthors: ["orders", "search", "import"], batchAuthors: ["import"])
        let consumers = [Sample.consumer("a", at: 9)]
        #expect(decide(consumers, rules).obstacles.map(\.kind) == [.noConsumer])
        #expect(decide(consumers, rules).obstacles.map(\.name) == ["search"])
        let lost = Sample.consumer("s", at: 9, author: "search", state: .lost)
        #expect(decide(consumers + [lost], rules).obstacles.map(\.name) == ["search"])
        let both = consumers + [Sample.consumer("s", at: 7, author: "search")]
        #expect(decide(both, rules).bound == Sample.token(7))
    }

    @Test("acknowledgements of another epoch count for nothing")
    func otherEpoch() {
        let rules = PurgeRules()
        let consumers = [Sample.consumer("a", at: 9), Sample.consumer("b", at: nil, state: .resyncing, epoch: 2)]
        let decision = rules.decide(consumers, mark: Sample.token(2, epoch: 2))
        #expect(decision.bound == nil)
        #expect(decision.obstacles.map(\.kind) == [.resyncing, .resyncing])
    }

    @Test("PHT29: the first mirror transaction lowers the bound, unless mirrors are cleaned too")
    func mirrors() {
        let rules = PurgeRules(mirrorAuthors: ["cloud"])
        let consumers = [Sample.consumer("a", at: 9)]
        #expect(rules.holdingAuthors == ["cloud"])
        #expect(PurgeRules(mirrorAuthors: ["cloud"], cleansMirrors: true).holdingAuthors == [])
        #expect(decide(consumers, rules, firstMirror: 6).bound == Sample.token(6))
        #expect(decide(consumers, rules, firstMirror: 6).isHeldByMirror)
        #expect(decide(consumers, rules, firstMirror: 9).bound == Sample.token(9))
        #expect(!decide(consumers, rules, firstMirror: 9).isHeldByMirror)
    }
}

@Suite("Rules of acknowledging and registering")
struct RegistryRulesTests {
    private let rules = AcknowledgementRules(mark: Sample.token(2), head: Sample.token(9), users: ["c": "carol"])

    private func judge(
        _ token: HistoryToken, of record: ConsumerRecord?, sender: Acknowledgement.Sender = .store, nonce: UInt64?
    ) -> AcknowledgementVerdict {
        rules.judge(Acknowledgement(consumer: "a", token: token, sender: sender), of: record, nonce: nonce)
    }

    @Test("an acknowledgement further than the last is recorded, another is known already")
    func accepted() {
        let record = Sample.consumer("a", at: 5)
        #expect(judge(Sample.token(6), of: record, nonce: 106) == .recorded)
        #expect(judge(Sample.token(9), of: record, nonce: 109) == .recorded)
        #expect(judge(Sample.token(5), of: record, nonce: 105) == .known)
        #expect(judge(Sample.token(2), of: record, nonce: 102) == .known)
        #expect(judge(Sample.token(2), of: Sample.consumer("a", at: nil), nonce: 102) == .recorded)
        // Behind the mark nothing can be proven, and nothing need be where it says nothing new.
        #expect(judge(Sample.token(1), of: record, nonce: nil) == .known)
        #expect(
            judge(Sample.token(3), of: Sample.consumer("a", at: nil, state: .resyncing), nonce: 103) == .recorded)
    }

    @Test("P29: what is of another store, epoch, transaction or consumer, or beyond the head, is refused")
    func refused() {
        let record = Sample.consumer("a", at: 5)
        let foreign = HistoryToken(storeID: UUID(), epoch: 1, sequence: 6, nonce: 106)
        #expect(judge(Sample.token(6), of: nil, nonce: 106) == .refused(.unregistered))
        #expect(judge(foreign, of: record, nonce: 106) == .refused(.otherStore))
        #expect(judge(Sample.token(6, epoch: 0), of: record, nonce: 106) == .refused(.otherEpoch))
        #expect(judge(Sample.token(6, epoch: 2), of: record, nonce: 106) == .refused(.laterEpoch))
        #expect(judge(Sample.token(6, epoch: 1000), of: record, nonce: 106) == .refused(.laterEpoch))
        #expect(judge(Sample.token(6, epoch: 1001), of: record, nonce: 106) == .refused(.otherEpoch))
        #expect(judge(Sample.token(6, epoch: .max), of: record, nonce: 106) == .refused(.otherEpoch))
        #expect(judge(Sample.token(10), of: record, nonce: nil) == .refused(.beyondHead))
        #expect(judge(Sample.token(6, nonce: 7), of: record, nonce: 106) == .refused(.otherNonce))
        #expect(judge(Sample.token(5, nonce: 7), of: record, nonce: 105) == .refused(.otherNonce))
        #expect(judge(Sample.token(1), of: Sample.consumer("a", at: nil), nonce: nil) == .refused(.expired))
        for state in [ConsumerRecord.State.lost, .evicted] {
            #expect(
                judge(Sample.token(6), of: Sample.consumer("a", at: 5, state: state), nonce: 106) == .refused(.inactive)
            )
        }
        let lineage = AcknowledgementVerdict.Refusal.allCases.filter(\.provesLostLineage)
        #expect(lineage == [.laterEpoch, .beyondHead, .otherNonce])
    }

    @Test("P29: another user is refused before anything else, even where the token proves something")
    func users() {
        let record = Sample.consumer("a", at: 5, user: "alice")
        #expect(judge(Sample.token(6), of: record, sender: .user("alice"), nonce: 106) == .recorded)
        #expect(judge(Sample.token(6), of: record, sender: .user("bob"), nonce: 106) == .refused(.otherUser))
        #expect(judge(Sample.token(10), of: record, sender: .user("bob"), nonce: nil) == .refused(.otherUser))
        // Registered in the store itself: no user of the broker's may speak for it.
        let local = Sample.consumer("a", at: 5)
        #expect(judge(Sample.token(6), of: local, sender: .user("alice"), nonce: 106) == .refused(.otherUser))
        // By configuration, whoever registered it.
        let configured = Sample.consumer("c", at: 5, user: "alice")
        #expect(judge(Sample.token(6), of: configured, sender: .user("carol"), nonce: 106) == .recorded)
        #expect(judge(Sample.token(6), of: configured, sender: .user("alice"), nonce: 106) == .refused(.otherUser))
    }

    private func place(_ existing: ConsumerRecord?, _ token: Int64?) -> ConsumerPlace {
        RegistrationRules.place(
            of: existing, token: token.map { Sample.token($0) }, mark: Sample.token(2), head: Sample.token(9))
    }

    @Test("a new consumer's floor is its token, or the head; so is that of one that was lost, evicted or is resyncing")
    func newConsumer() {
        let active = ConsumerRecord.State.active
        #expect(place(nil, nil) == ConsumerPlace(floor: 9, acknowledged: nil, state: active))
        #expect(place(nil, 4) == ConsumerPlace(floor: 4, acknowledged: nil, state: active))
        for state in [ConsumerRecord.State.lost, .evicted] {
            #expect(
                place(Sample.consumer("a", at: 3, state: state), nil)
                    == ConsumerPlace(floor: 9, acknowledged: nil, state: active))
        }
        #expect(
            place(Sample.consumer("a", at: nil, state: .resyncing), 5)
                == ConsumerPlace(floor: 5, acknowledged: nil, state: .resyncing))
    }

    @Test("one that is registered keeps what it holds; a token before that is a rewind and holds from there")
    func knownConsumer() {
        let active = ConsumerRecord.State.active
        let waiting = Sample.consumer("a", at: nil, floor: 4)
        #expect(place(waiting, nil) == ConsumerPlace(floor: 4, acknowledged: nil, state: active))
        #expect(place(waiting, 7) == ConsumerPlace(floor: 4, acknowledged: nil, state: active))
        #expect(place(waiting, 3) == ConsumerPlace(floor: 3, acknowledged: nil, state: active))
        let acknowledged = Sample.consumer("a", at: 6, floor: 4)
        let kept = ConsumerPlace(floor: 6, acknowledged: Sample.token(6), state: active)
        #expect(place(acknowledged, nil) == kept)
        #expect(place(acknowledged, 8) == kept)
        #expect(place(acknowledged, 3) == ConsumerPlace(floor: 3, acknowledged: Sample.token(3), state: active))
        // Passed by a purge by force: nothing can be promised before the mark.
        #expect(place(Sample.consumer("a", at: 1), nil).floor == 2)
    }
}
