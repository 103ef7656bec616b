import Glibc
import HistoryMessaging
import Synchronization
import TidingsServices

extension TestAgent {
    /// Two services in a group that a signal ends: `service graceful|stubborn|deaf|failing MILLISECONDS`. Prints what happens to
    /// them; then waits for a line of its input, so that a test can see that signals act as before.
    static func service(_ arguments: [String]) async throws {
        guard arguments.count == 2, let mode = PrintingService.Mode(rawValue: arguments[0]),
            let bound = Int(arguments[1])
        else { throw Usage() }
        // The second one only, so that both orders can be told apart.
        let services = [PrintingService("first", .graceful), PrintingService("second", mode)]
        let before = pipes()
        do {
            try await ServiceGroup(services).run(untilSignals: [.term, .int], within: .milliseconds(bound))
            say(pipes() == before ? "returned" : "leaks")
        } catch {
            say("threw \(error)")
        }
        _ = readLine()
    }

    /// Which pipes this process holds.
    private static func pipes() -> [String] {
        (0..<256).compactMap { descriptor in
            var name = [CChar](repeating: 0, count: 64)
            let count = readlink("/proc/self/fd/\(descriptor)", &name, name.count)
            let target = String(decoding: name.prefix(max(count, 0)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
            return target.hasPrefix("pipe:") ? "\(descriptor) \(target)" : nil
        }
    }

    fileprivate static func say(_ line: String) {
        // At once, and in one piece.
        let bytes = Array((line + "\n").utf8)
        _ = write(STDOUT_FILENO, bytes, bytes.count)
    }
}

/// Does nothing until it is told to stop, and says what happens to it.
private final class PrintingService: HistoryService {
    enum Mode: String {
        /// Ends when told to stop.
        case graceful
        /// Ends when cancelled only.
        case stubborn
        /// Never ends.
        case deaf
        /// Fails when told to stop.
        case failing
    }

    struct Failure: Error {}

    let serviceName: String
    private let mode: Mode
    private let isTold = Atomic(false)
    private let asked = AsyncStream.makeStream(of: Void.self)
    private let ended = AsyncStream.makeStream(of: Void.self)

    init(_ name: String, _ mode: Mode) {
        serviceName = name
        self.mode = mode
    }

    func run() async throws {
        defer { ended.continuation.finish() }
        TestAgent.say("\(serviceName) runs")
        for await _ in asked.stream {}
        if Task.isCancelled { TestAgent.say("\(serviceName) is cancelled") }
        if mode == .deaf { await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in } }
        if mode == .failing { throw Failure() }
        TestAgent.say("\(serviceName) ends")
    }

    func stop() async {
        // A group may say so again.
        if isTold.exchange(true, ordering: .relaxed) == false { TestAgent.say("\(serviceName) stops") }
        if mode != .stubborn, mode != .deaf { asked.continuation.finish() }
        for await _ in ended.stream {}
    }
}
