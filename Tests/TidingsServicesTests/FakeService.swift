import HistoryMessaging
import PersistentHistory
import Synchronization
import TidingsAMQP

/// What happened, in order; tests wait for it.
final class Record: Sendable {
    private let state = Locked<[String]>([])
    private let stream = AsyncStream.makeStream(of: Void.self)

    var all: [String] { state.withLock { $0 } }

    func add(_ entry: String) {
        state.withLock { $0.append(entry) }
        stream.continuation.yield()
    }

    /// Waits until an entry is there. One wait at a time.
    func wait(for entry: String) async {
        if all.contains(entry) { return }
        for await _ in stream.stream where all.contains(entry) { return }
    }
}

/// A service that does nothing but record what happens to it.
final class FakeService: HistoryService {
    struct Failure: Error, Equatable {
        let name: String
    }

    let serviceName: String
    private let record: Record
    private let failsWhenStopped: Bool
    private let isTold = Atomic(false)
    private let ending = AsyncStream.makeStream(of: Bool.self)
    private let ended = AsyncStream.makeStream(of: Void.self)

    init(_ name: String, _ record: Record, failsWhenStopped: Bool = false) {
        serviceName = name
        self.record = record
        self.failsWhenStopped = failsWhenStopped
    }

    func run() async throws {
        defer { ended.continuation.finish() }
        record.add("\(serviceName) runs")
        var fails = false
        for await failure in ending.stream { fails = failure }
        if Task.isCancelled {
            record.add("\(serviceName) is cancelled")
            throw CancellationError()
        }
        record.add("\(serviceName) \(fails ? "fails" : "ends")")
        if fails { throw Failure(name: serviceName) }
    }

    func stop() async {
        // A group may say so again.
        if isTold.exchange(true, ordering: .relaxed) == false { record.add("\(serviceName) stops") }
        end(fails: failsWhenStopped)
        for await _ in ended.stream {}
    }

    /// Lets the service fail, or end as if somebody had stopped it.
    func end(fails: Bool) {
        ending.continuation.yield(fails)
        ending.continuation.finish()
    }
}

/// Keeps what is logged.
final class RecordingLogger: HistoryLogger {
    private let lines = Locked<[String]>([])

    var all: [String] { lines.withLock { $0 } }

    func log(_ level: HistoryLogLevel, _ entry: () -> HistoryLogEntry) {
        let entry = entry()
        let fields = entry.fields.map { " \($0.name)=\($0.value)" }.joined()
        lines.withLock { $0.append("\(level.name) \(entry.service): \(entry.message)\(fields)") }
    }
}
