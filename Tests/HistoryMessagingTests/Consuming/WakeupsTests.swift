import Testing

@testable import HistoryMessaging

@Suite("Wakeups", .timeLimit(.minutes(1)))
struct WakeupsTests {
    @Test("A wait ends at its time, by a signal before or meanwhile, and by a cancellation")
    func endings() async {
        let wakeups = Wakeups()
        for _ in 0..<50 { await wakeups.wait(until: .now + .milliseconds(2)) }
        wakeups.signal()
        wakeups.signal()
        await wakeups.wait(until: nil)
        async let signalled: Void = wakeups.wait(until: nil)
        wakeups.signal()
        await signalled
        let waiting = Task { await wakeups.wait(until: .now + .seconds(3600)) }
        waiting.cancel()
        await waiting.value
        let endless = Task { await wakeups.wait(until: nil) }
        endless.cancel()
        await endless.value
    }

    @Test("Signals from many tasks are never lost")
    func signals() async {
        let wakeups = Wakeups()
        for round in 0..<200 {
            let task = Task { wakeups.signal() }
            await wakeups.wait(until: round % 2 == 0 ? nil : .now + .seconds(3600))
            await task.value
        }
    }
}
