internal import Foundation
internal import TidingsAMQP

/// A process of its own session that inherits nothing but what it is given: no descriptor, no variable, no signal mask.
///
/// Foundation's `Process` cannot start a session, and considers a process to be running for as long as one of its
/// children is.
final class SpawnedProcess: Sendable {
    /// The number of the process.
    let processID: Int32
    private let ended = Ended()
    /// Guards the number: once the process is reaped, the number may belong to another.
    private let isReaped = Locked(false)

    /// `POSIX_SPAWN_SETSID`, which Swift's Glibc hides as an extension.
    private static let ownSession: Int16 = 0x80

    /// The descriptors that a child could inherit. Those that are opened meanwhile get the lowest numbers that are
    /// free, and closing what is not open is no error.
    private static var inheritable: Range<Int32> {
        let open = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        let limit = min(Int32(sysconf(Int32(_SC_OPEN_MAX))), (open.compactMap { Int32($0) }.max() ?? 0) + 256)
        return STDERR_FILENO + 1..<limit
    }

    /// Starts a program.
    ///
    /// - Parameters:
    ///   - input: its standard input; nil is nothing.
    ///   - output: its standard output; nil is the log.
    ///   - log: the file that its standard error is appended to.
    init(
        _ executable: String, _ arguments: [String], environment: [String: String], input: Int32? = nil,
        output: Int32? = nil, log: String
    ) throws {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        if let input {
            posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO)
        } else {
            posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
        }
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log, O_WRONLY | O_CREAT | O_APPEND, 0o600)
        posix_spawn_file_actions_adddup2(&actions, output ?? STDERR_FILENO, STDOUT_FILENO)
        for descriptor in Self.inheritable { posix_spawn_file_actions_addclose(&actions, descriptor) }

        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        for signal in [SIGHUP, SIGINT, SIGPIPE, SIGTERM] { sigaddset(&signals, signal) }
        posix_spawnattr_setsigdefault(&attributes, &signals)
        posix_spawnattr_setflags(
            &attributes, Self.ownSession | Int16(POSIX_SPAWN_SETSIGMASK) | Int16(POSIX_SPAWN_SETSIGDEF))

        // Copies that live until the program has started.
        var argv = ([executable] + arguments).map { strdup($0) } + [nil]
        var envp = environment.map { strdup("\($0)=\($1)") } + [nil]
        defer { for text in argv + envp { free(text) } }
        var pid: pid_t = 0
        let code = posix_spawn(&pid, executable, &actions, &attributes, &argv, &envp)
        guard code == 0 else {
            throw PrivateBrokerError("cannot start \(executable): \(String(cString: strerror(code)))")
        }
        processID = pid
        // A thread of its own: waiting blocks.
        Thread.detachNewThread { [self] in reap() }
    }

    /// How it ended; nil while it runs.
    var ending: ChildProcess.Ending? { ended.value }

    /// Sends a signal, unless it has ended.
    func send(_ signal: Int32) { isReaped.withLock { if !$0 { kill(processID, signal) } } }

    /// Waits for the end.
    @discardableResult
    func wait() async -> ChildProcess.Ending { await ended.wait() }

    /// Waits for the end for a time; false where it did not come.
    func wait(atMost limit: Duration) async throws -> Bool {
        let end = ContinuousClock.now + limit
        while ending == nil, ContinuousClock.now < end { try await Task.sleep(for: .milliseconds(10)) }
        return ending != nil
    }

    /// Stops it as SIGSTOP does, and returns when it stands still.
    func suspend() {
        send(SIGSTOP)
        while state.map({ $0 != "T" }) ?? false { sched_yield() }
    }

    /// The letter of its state in /proc; nil where it is no more.
    private var state: Character? {
        guard ending == nil, let line = try? String(contentsOfFile: "/proc/\(processID)/stat", encoding: .utf8),
            let name = line.lastIndex(of: ")")
        else { return nil }
        let letter = line[name...].dropFirst(2).first
        return letter == "Z" || letter == "X" ? nil : letter
    }

    private func reap() {
        var info = siginfo_t()
        while waitid(P_PID, id_t(processID), &info, WEXITED | WNOWAIT) != 0, errno == EINTR {}
        var status: Int32 = 0
        isReaped.withLock { isReaped in
            while waitpid(processID, &status, 0) < 0, errno == EINTR {}
            isReaped = true
        }
        let signal = status & 0x7F
        ended.set(signal == 0 ? .exited((status >> 8) & 0xFF) : .signalled(signal))
    }
}
