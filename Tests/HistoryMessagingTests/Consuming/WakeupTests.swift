import Testing

@testable import HistoryMessaging

@Suite("Wakeup", .timeLimit(.minutes(3)))
struct WakeupTests {
    @Test("A wait ends at its time, by a signal before or meanwhile, and by a cancellation")
    func endings() async {
        let wakeup = Wakeup()
        for _ in 0..<50 { await wakeup.wait(until: .now + .milliseconds(2)) }
        wakeup.signal()
        wakeup.signal()
        await wakeup.wait(until: .now + .seconds(3600))
        async let signalled: Void = wakeup.wait(until: .now + .seconds(3600))
        wakeup.signal()
        await signalled
        let waiting = Task { await wakeup.wait(until: .now + .seconds(3600)) }
        waiting.cancel()
        await waiting.value
        let endless = Task { await wakeup.wait(until: .now + .seconds(3600)) }
        endless.cancel()
        await endless.value
    }

    @Test("Signals from many tasks are never lost")
    func signals() async {
        let wakeup = Wakeup()
        for _ in 0..<200 {
            let task = Task { wakeup.signal() }
            await wakeup.wait(until: .now + .seconds(3600))
            await task.value
        }
    }
}
