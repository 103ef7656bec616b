import Foundation
import Glibc

/// A command of a shell's, which is over when the shell is: whatever it has left running in the background goes on, and is
/// not waited for. It is a process group of its own, and has SIGPIPE as programs expect it.
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
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var restored = sigset_t()
        sigemptyset(&restored)
        sigaddset(&restored, SIGPIPE)
        posix_spawnattr_setsigdefault(&attributes, &restored)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF))
        let variables = ProcessInfo.processInfo.environment.merging(environment) { $1 }.map { "\($0)=\($1)" }
        var processID = pid_t()
        let code = Self.withStrings(["sh", "-c", command]) { arguments in
            Self.withStrings(variables) { posix_spawn(&processID, "/bin/sh", &actions, &attributes, arguments, $0) }
        }
        guard code == 0 else {
            throw CommandError("a shell cannot be started: \(String(cString: strerror(code)))")
        }
        self.processID = processID
    }

    /// How long a command that was told to end may take before it is killed.
    private static let grace: Duration = .seconds(2)

    /// Waits for the end, on a thread of its own. To be called once. A cancellation ends the command: by SIGTERM to its whole
    /// process group, and where that does not help by SIGKILL.
    func wait() async -> Ending {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                Thread.detachNewThread { [processID] in
                    var status: Int32 = 0
                    while waitpid(processID, &status, 0) < 0, errno == EINTR {}
                    let signal = status & 0x7F
                    continuation.resume(returning: signal == 0 ? .exited(status >> 8 & 0xFF) : .signalled(signal))
                }
            }
        } onCancel: {
            kill(-processID, SIGTERM)
            Task.detached { [processID] in
                try? await Task.sleep(for: Self.grace)
                // Where the group is gone there is nobody to hit: its number is not used again while a member lives.
                kill(-processID, SIGKILL)
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
