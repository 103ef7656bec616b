import Testing

@testable import HistoryMessaging

@Suite("Wakeup, a time that has passed", .timeLimit(.minutes(3)))
struct WakeupYieldTests {
    /// Looks again and again until somebody has changed what it sees.
    private actor Looker {
        private let wakeup = Wakeup()
        private var isChanged = false

        func look() async { while !isChanged { await wakeup.wait(until: .now) } }
        func change() { isChanged = true }
    }

    @Test("An actor that waits for a time that has passed lets others in")
    func passed() async {
        let looker = Looker()
        async let looking: Void = looker.look()
        await looker.change()
        await looking
    }

    @Test("Signals before and while it waits wake it once; a cancellation, and the time, too")
    func signals() async {
        let wakeup = Wakeup()
        let late = ContinuousClock.now + .seconds(3600)
        wakeup.signal()
        wakeup.signal()
        await wakeup.wait(until: late)
        await wakeup.wait(until: .now + .milliseconds(1))
        let waiting = Task { await wakeup.wait(until: late) }
        wakeup.signal()
        await waiting.value
        let cancelled = Task { await wakeup.wait(until: late) }
        cancelled.cancel()
        await cancelled.value
    }
}
