internal import Foundation

/// A program that was run to its end, with all that it wrote.
public struct FinishedProcess: Sendable {
    /// What it wrote to its standard output.
    public let output: String
    /// What it wrote to its standard error.
    public let error: String
    /// How it ended.
    public let ending: ChildProcess.Ending

    /// Runs a program to its end.
    ///
    /// - Parameters:
    ///   - input: what it finds on its standard input; nil is nothing.
    ///   - environment: its environment; nil is the test's own.
    /// - Throws: where the program cannot be started.
    public static func run(
        _ executable: String, _ arguments: [String], input: String? = nil, environment: [String: String]? = nil
    ) async throws -> FinishedProcess {
        let directory = try TemporaryDirectory()
        // Files rather than pipes: nobody has to read while it runs.
        let paths = (output: directory.file("output"), error: directory.file("error"), input: directory.file("input"))
        try Data((input ?? "").utf8).write(to: URL(filePath: paths.input))
        for path in [paths.output, paths.error] { try Data().write(to: URL(filePath: path)) }
        let process = Process()
        process.executableURL = URL(filePath: executable)
        process.arguments = arguments
        if let environment { process.environment = environment }
        let files = [
            try FileHandle(forReadingFrom: URL(filePath: paths.input)),
            try FileHandle(forWritingTo: URL(filePath: paths.output)),
            try FileHandle(forWritingTo: URL(filePath: paths.error)),
        ]
        // Foundation holds on to them: left open, they pile up until the process has too many.
        defer { for file in files { try? file.close() } }
        process.standardInput = files[0]
        process.standardOutput = files[1]
        process.standardError = files[2]
        let ending = try await withCheckedThrowingContinuation { continuation in
            process.terminationHandler = { process in
                let status = process.terminationStatus
                let ending: ChildProcess.Ending =
                    process.terminationReason == .exit ? .exited(status) : .signalled(status)
                continuation.resume(returning: ending)
            }
            do {
                try process.run()
            } catch {
                continuation.resume(throwing: error)
            }
        }
        defer { withExtendedLifetime(directory) {} }
        return FinishedProcess(
            output: try String(contentsOfFile: paths.output, encoding: .utf8),
            error: try String(contentsOfFile: paths.error, encoding: .utf8), ending: ending)
    }
}
