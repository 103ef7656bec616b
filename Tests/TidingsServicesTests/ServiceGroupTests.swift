import HistoryMessaging
import PersistentHistory
import Testing
import TidingsServices

@Suite("Service groups", .timeLimit(.minutes(3)))
struct ServiceGroupTests {
    struct BodyError: Error, Equatable {}

    let record = Record()

    private func waitForBoth() async {
        await record.wait(for: "a runs")
        await record.wait(for: "b runs")
    }

    @Test("services run as long as the body and end in reverse order before its result is returned")
    func order() async throws {
        let logger = RecordingLogger()
        let (a, b) = (FakeService("a", record), FakeService("b", record))
        let record = record
        let result = try await withRunning(a, b, logger: logger) {
            await record.wait(for: "a runs")
            await record.wait(for: "b runs")
            record.add("body")
            return 42
        }
        #expect(result == 42)
        #expect(Set(record.all.prefix(2)) == ["a runs", "b runs"])
        #expect(record.all.dropFirst(2) == ["body", "b stops", "b ends", "a stops", "a ends"])
        #expect(Set(logger.all.prefix(2)) == ["info a: started", "info b: started"])
        #expect(logger.all.dropFirst(2) == ["info b: ended", "info a: ended"])
    }

    @Test("a service that fails cancels the body, stops the others and is what the caller learns")
    func failure() async throws {
        let logger = RecordingLogger()
        let (a, b) = (FakeService("a", record), FakeService("b", record))
        let record = record
        await #expect(throws: FakeService.Failure(name: "b")) {
            try await withRunning(a, b, logger: logger) {
                await record.wait(for: "a runs")
                await record.wait(for: "b runs")
                b.end(fails: true)
                try await untilCancelled()
            }
        }
        #expect(record.all.dropFirst(2) == ["b fails", "a stops", "a ends"])
        #expect(logger.all.dropFirst(2) == [#"error b: failed error=Failure(name: "b")"#, "info a: ended"])
    }

    @Test("a body that throws stops the services gracefully, and its error is passed on")
    func bodyThrows() async throws {
        let (a, b) = (FakeService("a", record), FakeService("b", record))
        let record = record
        await #expect(throws: BodyError()) {
            try await withRunning(a, b) {
                await record.wait(for: "a runs")
                await record.wait(for: "b runs")
                throw BodyError()
            }
        }
        #expect(record.all.dropFirst(2) == ["b stops", "b ends", "a stops", "a ends"])
    }

    @Test("a service that fails while it is stopped has failed: the body's result is not passed off as a success")
    func failureWhileStopping() async throws {
        let a = FakeService("a", record, failsWhenStopped: true)
        let b = FakeService("b", record)
        let record = record
        await #expect(throws: FakeService.Failure(name: "a")) {
            try await withRunning(a, b) {
                await record.wait(for: "a runs")
                await record.wait(for: "b runs")
                return 1
            }
        }
        #expect(record.all.dropFirst(2) == ["b stops", "b ends", "a stops", "a fails"])
    }

    @Test("a service that somebody has stopped does not end the others or the body")
    func stoppedByBody() async throws {
        let (a, b) = (FakeService("a", record), FakeService("b", record))
        let record = record
        try await withRunning(a, b) {
            await record.wait(for: "a runs")
            await record.wait(for: "b runs")
            await b.stop()
            record.add("body goes on")
        }
        #expect(record.all.dropFirst(2) == ["b stops", "b ends", "body goes on", "a stops", "a ends"])
    }

    @Test("a cancellation cancels body and services, and is no failure of theirs")
    func cancelled() async throws {
        let (a, b) = (FakeService("a", record), FakeService("b", record))
        let task = Task { try await withRunning(a, b) { try await untilCancelled() } }
        await waitForBoth()
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        let expected: Set = ["a runs", "b runs", "a is cancelled", "b is cancelled"]
        #expect(Set(record.all).isSuperset(of: expected) && !record.all.contains("a ends"))
    }

    @Test("a body that ends before the services have begun does not leave them running", arguments: 0..<50)
    func endsAtOnce(round: Int) async throws {
        let services = (0..<8).map { FakeService("\($0)", record) }
        let value = try await ServiceGroup(services).run { round }
        #expect(value == round)
        #expect(record.all.filter { $0.hasSuffix("runs") }.count == record.all.filter { $0.hasSuffix("ends") }.count)
    }

    @Test("no services: the body runs alone")
    func none() async throws {
        #expect(try await ServiceGroup([]).run { 7 } == 7)
    }
}

/// One after the other: there can be only one in a process.
@Suite("Service groups that wait for signals", .serialized, .timeLimit(.minutes(3)))
struct WaitingGroupTests {
    let record = Record()

    @Test("no services: there is nothing to wait for")
    func none() async throws {
        try await ServiceGroup([]).run(untilSignals: [.hup], within: .seconds(1))
    }

    @Test("several groups that wait for signals, or a signal that cannot be waited for, are refused by name")
    func refused() async throws {
        let a = FakeService("a", record)
        let task = Task { try await ServiceGroup([a]).run(untilSignals: [.hup]) }
        await record.wait(for: "a runs")
        let twice = await #expect(throws: MessagingError.self) {
            try await ServiceGroup([]).run(untilSignals: [.hup])
        }
        #expect(twice?.code == .alreadyRunning)
        a.end(fails: true)
        await #expect(throws: FakeService.Failure(name: "a")) { try await task.value }
        let kill = await #expect(throws: MessagingError.self) {
            try await ServiceGroup([]).run(untilSignals: [ServiceSignal(number: 9)])
        }
        #expect(kill?.code == .invalid && kill?.message == "signal 9 cannot be waited for")
        // The refusal has left nothing behind.
        try await ServiceGroup([]).run(untilSignals: [.hup])
    }

    @Test("a group that waits for signals ends when all its services have ended")
    func allEnded() async throws {
        let (a, b) = (FakeService("a", record), FakeService("b", record))
        let task = Task { try await ServiceGroup([a, b]).run(untilSignals: [.hup]) }
        await record.wait(for: "a runs")
        await record.wait(for: "b runs")
        a.end(fails: false)
        b.end(fails: false)
        try await task.value
        #expect(Set(record.all.dropFirst(2)) == ["a ends", "b ends"])
    }
}

/// Waits until the task is cancelled.
func untilCancelled() async throws {
    for await _ in AsyncStream.makeStream(of: Void.self).stream {}
    try Task.checkCancellation()
}
