import Testing

@testable import TidingsAMQP

@Suite("The states of a connection", .timeLimit(.minutes(1)))
struct ConnectionStatusTests {
    @Test("those who stop listening while a state is told hold up nobody")
    func cancelled() async {
        let status = ConnectionStatus()
        for _ in 0..<2000 {
            let (ready, listens) = AsyncStream.makeStream(of: Void.self)
            let listeners = (0..<4).map { _ in Task { for await _ in status.states() { listens.yield() } } }
            var count = 0
            for await _ in ready {
                count += 1
                if count == listeners.count { break }
            }
            async let told: Void = Self.tell(status)
            for listener in listeners { listener.cancel() }
            await told
            for listener in listeners { await listener.value }
        }
        #expect(status.state == .open)
    }

    @concurrent private static func tell(_ status: ConnectionStatus) async {
        for _ in 0..<8 { status.set(.open) }
    }

    @Test("states come in their order, the last is the end, whenever one begins to listen")
    func order() async {
        let status = ConnectionStatus()
        let first = status.states()
        #expect(status.begin())
        status.set(.open)
        let second = status.states()
        status.set(.closed(nil))
        var seen: [[AMQPConnectionState]] = []
        for states in [first, second, status.states()] {
            var list: [AMQPConnectionState] = []
            for await state in states { list.append(state) }
            seen.append(list)
        }
        #expect(seen == [[.idle, .connecting, .open, .closed(nil)], [.open, .closed(nil)], [.closed(nil)]])
    }
}
