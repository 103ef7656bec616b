internal import Foundation
internal import TidingsAMQP

/// Another process of a test: read line by line, killed at any moment, waited for.
///
/// A process that is still running when the object goes is killed.
public final class ChildProcess: Sendable {
    /// How a process ended.
    public enum Ending: Sendable, Hashable {
        /// It exited with a code.
        case exited(Int32)
        /// A signal ended it.
        case signalled(Int32)
    }

    /// The lines that the process writes to its standard output, as they come. To be read once.
    public let lines: AsyncStream<String>
    /// The number of the process.
    public let processID: Int32
    private let ending: Ended
    private let standardInput: FileHandle

    /// Starts a program. What it writes to its standard error goes to the test's.
    ///
    /// - Throws: where the program cannot be started.
    public init(_ executable: String, _ arguments: [String], environment: [String: String] = [:]) throws {
        let process = Process()
        process.executableURL = URL(filePath: executable)
        process.arguments = arguments
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        let output = Pipe()
        process.standardOutput = output
        let input = Pipe()
        process.standardInput = input
        standardInput = input.fileHandleForWriting
        let ended = Ended()
        process.terminationHandler = { process in
            let status = process.terminationStatus
            ended.set(process.terminationReason == .exit ? .exited(status) : .signalled(status))
        }
        try process.run()
        // The child's ends: open here, they would outlive it.
        try? output.fileHandleForWriting.close()
        try? input.fileHandleForReading.close()
        processID = process.processIdentifier
        ending = ended
        lines = Self.lines(of: output.fileHandleForReading)
    }

    deinit {
        if ending.value == nil { kill(processID, SIGKILL) }
        try? standardInput.close()
    }

    /// Sends a signal.
    public func send(_ signal: Int32) { if ending.value == nil { kill(processID, signal) } }

    /// Writes a line to the process's standard input.
    public func write(line: String) throws { try standardInput.write(contentsOf: Data((line + "\n").utf8)) }

    /// Waits for the end.
    public func wait() async -> Ending { await ending.wait() }

    /// Waits for the end and returns all lines. Not together with ``lines``.
    public func output() async -> (lines: [String], ending: Ending) {
        var all: [String] = []
        for await line in lines { all.append(line) }
        return (all, await wait())
    }

    /// The path of a program that was built beside the tests.
    public static func built(_ name: String) -> String {
        let tests = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
        return tests.deletingLastPathComponent().appending(path: name).path(percentEncoded: false)
    }

    private static func lines(of handle: FileHandle) -> AsyncStream<String> {
        let (stream, continuation) = AsyncStream.makeStream(of: String.self)
        // A thread of its own: reading blocks.
        Thread.detachNewThread {
            var rest = Data()
            while true {
                let data = handle.availableData
                if data.isEmpty { break }
                rest.append(data)
                while let newline = rest.firstIndex(of: 0x0A) {
                    continuation.yield(String(decoding: rest[rest.startIndex..<newline], as: UTF8.self))
                    rest = Data(rest[rest.index(after: newline)...])
                }
            }
            if !rest.isEmpty { continuation.yield(String(decoding: rest, as: UTF8.self)) }
            try? handle.close()
            continuation.finish()
        }
        return stream
    }
}

/// The ending of a process, to be waited for.
final class Ended: Sendable {
    private struct State {
        var ending: ChildProcess.Ending?
        var waiting: [CheckedContinuation<ChildProcess.Ending, Never>] = []
    }

    private let state = Locked(State())

    var value: ChildProcess.Ending? { state.withLock { $0.ending } }

    func set(_ ending: ChildProcess.Ending) {
        let waiting = state.withLock { state in
            state.ending = ending
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume(returning: ending) }
    }

    func wait() async -> ChildProcess.Ending {
        await withCheckedContinuation { continuation in
            let ending = state.withLock { state in
                if state.ending == nil { state.waiting.append(continuation) }
                return state.ending
            }
            if let ending { continuation.resume(returning: ending) }
        }
    }
}
