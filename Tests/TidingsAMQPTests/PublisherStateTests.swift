import Testing

@testable import TidingsAMQP

/// Which publication a returned message is.
@Suite(.timeLimit(.minutes(1)))
struct PublisherStateTests {
    private static let noRoute = PublishResult.returned(code: 312, text: "NO_ROUTE")

    /// What becomes of publications to `nobody`, all of them acked, after some came back.
    private static func results(
        _ publications: [AMQPPublication], _ comeBack: (PublisherState) -> Void
    ) async throws -> [PublishResult] {
        try await withCheckedThrowingContinuation { continuation in
            let state = PublisherState(id: 1, window: .init())
            let batch = PublishBatch(publications, identity: .next(), continuation: continuation)
            for (index, publication) in publications.enumerated() {
                state.confirms.written(
                    PublishSlot(batch: batch, index: index), size: publication.message.body.count, at: .now)
            }
            comeBack(state)
            do throws(AMQPError) {
                try state.confirms.answered(tag: UInt64(publications.count), isMultiple: true, isNack: false) {
                    state.resolve($0, $1)
                }
            } catch {
                Issue.record(error)
            }
        }
    }

    /// The properties of a message that came back, its body skipped.
    private static func comesBack(_ state: PublisherState, _ number: Int, size: UInt64, from queue: String = "nobody") {
        let message = AMQPMessage([], properties: AMQPProperties(messageID: String(number)))
        state.returned(code: 312, text: "NO_ROUTE", .queue(queue), message, skippedSize: size)
    }

    @Test("P15: a message that came back too large to be taken is returned all the same, told by id, address and size")
    func skipped() async throws {
        let results = try await Self.results(numbered(0..<3, to: "nobody", size: 2000)) { state in
            Self.comesBack(state, 1, size: 2000)
        }
        #expect(results == [.confirmed, Self.noRoute, .confirmed])
    }

    @Test("Of publications that differ in nothing but headers, the one with the headers that came back is meant")
    func headers() async throws {
        let publications = ["a", "b"].map { tenant in
            AMQPPublication(
                AMQPMessage([], properties: AMQPProperties(headers: ["tenant": .string(tenant)])), to: .queue("nobody"))
        }
        for (index, publication) in publications.enumerated() {
            let results = try await Self.results(publications) { state in
                state.returned(code: 312, text: "NO_ROUTE", .queue("nobody"), publication.message)
            }
            #expect(results == (0..<2).map { $0 == index ? Self.noRoute : .confirmed })
        }
    }

    @Test("Where headers came back other than they went, the first that is alike is meant")
    func otherHeaders() async throws {
        let results = try await Self.results(numbered(0..<1, to: "nobody")) { state in
            var message = numbered(0..<1, to: "nobody")[0].message
            message.properties.headers = ["x": 1]
            state.returned(code: 312, text: "NO_ROUTE", .queue("nobody"), message)
        }
        #expect(results == [Self.noRoute])
    }

    @Test("One of another id, address or size is none of the publisher's")
    func others() async throws {
        let results = try await Self.results(numbered(0..<3, to: "nobody", size: 2000)) { state in
            Self.comesBack(state, 3, size: 2000)
            Self.comesBack(state, 1, size: 2001)
            Self.comesBack(state, 1, size: 2000, from: "somebody")
        }
        #expect(results == [.confirmed, .confirmed, .confirmed])
    }
}
