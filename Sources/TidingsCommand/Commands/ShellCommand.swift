import Foundation
import Glibc

/// A command of a shell's, which is over when the shell is: whatever it has left running in the background goes on, and is
/// not waited for.
struct ShellCommand: Sendable {
    /// How a command ended.
    enum Ending: Sendable, Hashable, CustomStringConvertible {
        case exited(Int32)
        case signalled(Int32)

        var description: String {
            switch self {
            case .exited(let code): "exited with \(code)"
            case .signalled(let signal): "was ended by signal \(signal)"
            }
        }
    }

    private let processID: pid_t

    /// Starts a command. Its standard input is a descriptor of the caller's, or nothing.
    init(_ command: String, input: Int32? = nil, environment: [String: String] = [:]) throws(CommandError) {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        if let input {
            posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO)
        } else {
            posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
        }
        let variables = ProcessInfo.processInfo.environment.merging(environment) { $1 }.map { "\($0)=\($1)" }
        var processID = pid_t()
        let code = Self.withStrings(["sh", "-c", command]) { arguments in
            Self.withStrings(variables) { posix_spawn(&processID, "/bin/sh", &actions, nil, arguments, $0) }
        }
        guard code == 0 else {
            throw CommandError("a shell cannot be started: \(String(cString: strerror(code)))")
        }
        self.processID = processID
    }

    /// Waits for the end, on a thread of its own. To be called once.
    func wait() async -> Ending {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread { [processID] in
                var status: Int32 = 0
                while waitpid(processID, &status, 0) < 0, errno == EINTR {}
                let signal = status & 0x7F
                continuation.resume(returning: signal == 0 ? .exited(status >> 8 & 0xFF) : .signalled(signal))
            }
        }
    }

    /// Lends C strings, with the null behind the last that the system wants.
    private static func withStrings<Value>(
        _ texts: [String], _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> Value
    ) -> Value {
        var pointers = texts.map { strdup($0) } + [nil]
        defer { for pointer in pointers { free(pointer) } }
        return pointers.withUnsafeMutableBufferPointer { body($0.baseAddress!) }
    }
}
