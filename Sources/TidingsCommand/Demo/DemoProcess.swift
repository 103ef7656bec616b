import Foundation
import Glibc

/// A process of the demo: this program again, with another subcommand; what it says goes to a file.
final class DemoProcess {
    let name: String
    private let process = Process()
    private let log: FileHandle

    /// Starts the process.
    init(_ name: String, _ arguments: [String], log path: String) throws {
        self.name = name
        if !FileManager.default.fileExists(atPath: path) {
            _ = FileManager.default.createFile(atPath: path, contents: nil)
        }
        log = try FileHandle(forWritingTo: URL(filePath: path))
        try log.seekToEnd()
        process.executableURL = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
        process.arguments = arguments
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = log
        process.standardError = log
        try process.run()
    }

    /// Whether it runs.
    var isRunning: Bool { process.isRunning }

    /// The process's number.
    var processID: Int32 { process.processIdentifier }

    /// How it ended, where it has and not with 0.
    var failure: String? {
        guard !process.isRunning, process.terminationStatus != 0 || process.terminationReason != .exit else {
            return nil
        }
        let how = process.terminationReason == .exit ? "exited with" : "was ended by signal"
        return "\(name) \(how) \(process.terminationStatus)"
    }

    /// Sends a signal.
    func send(_ signal: Int32) { if process.isRunning { kill(process.processIdentifier, signal) } }

    /// Waits for its end, and kills it where that takes longer than the bound.
    func wait(within bound: Duration) async throws {
        let end = ContinuousClock.now + bound
        while process.isRunning {
            guard ContinuousClock.now < end else {
                kill(process.processIdentifier, SIGKILL)
                throw CommandError("\(name) did not end within \(bound)")
            }
            try await Task.sleep(for: .milliseconds(20))
        }
    }
}
