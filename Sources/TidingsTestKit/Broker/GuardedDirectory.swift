internal import FoundationEssentials
internal import TidingsAMQP

/// A directory that goes, with every process that was started with its ``mark``, when the object does or when the
/// test process ends in whatever way, also by SIGKILL.
///
/// A guardian sees to it: a shell in a session of its own that reads from a socket whose other end this process alone
/// holds. When that closes, it kills every process whose environment has the mark, so also those that a started
/// process has started, and no stranger that has got the number of a dead one; then it removes the directory.
final class GuardedDirectory: Sendable {
    /// The absolute path, without a slash at the end.
    let path: String
    private let guardian: SpawnedProcess
    /// Held by this process alone: when it closes, the guardian's input ends.
    private let lifeline: Locked<Descriptor?>

    private static let script = """
        trap '' HUP INT QUIT TERM
        cat > /dev/null
        quiet=0
        # Twice none: one that was just being started shows its mark a little later.
        while [ "$quiet" -lt 2 ]; do
            quiet=$((quiet + 1))
            for file in $(grep -lsaF "TIDINGS_GUARDED=$1" /proc/[0-9]*/environ); do
                quiet=0
                process=${file#/proc/}
                kill -KILL "${process%/environ}" 2> /dev/null
            done
            sleep 0.05
        done
        rm -rf "$1"
        """

    /// Makes the directory, for the current user alone, and starts its guardian.
    init() throws {
        let url = FileManager.default.temporaryDirectory.appending(path: "tidings-\(UUID().uuidString)")
        path = url.path(percentEncoded: false)
        let (ours, theirs) = try Descriptor.pair()
        let arguments = ["-c", Self.script, "guardian", path]
        guardian = try withExtendedLifetime(theirs) {
            try SpawnedProcess(
                "/bin/sh", arguments, environment: ["PATH": "/usr/bin:/bin"], input: theirs.number, log: "/dev/null")
        }
        lifeline = Locked(ours)
        try FileManager.default.createDirectory(
            at: url, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    }

    /// What a process has to have in its environment to be ended with the directory.
    var mark: [String: String] { ["TIDINGS_GUARDED": path] }

    /// The path of a file in the directory; it need not exist.
    func file(_ name: String) -> String { "\(path)/\(name)" }

    /// Ends the processes, removes the directory, and returns when that is done.
    func end() async {
        lifeline.withLock { $0 = nil }
        await guardian.wait()
    }
}
