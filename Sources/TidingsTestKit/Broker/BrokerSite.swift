internal import FoundationEssentials

/// What brokers that know each other share: a directory, a cookie, a port mapper (epmd) and a control node.
final class BrokerSite: Sendable {
    /// The directory; whatever runs in the site ends with it.
    let directory: GuardedDirectory
    /// The node that evaluates expressions on the brokers.
    let control: ControlNode
    /// Where Erlang nodes find the cookie and the port mapper. Nothing of the test's own environment: variables like
    /// `ERL_FLAGS` would change what is tested.
    let environment: [String: String]

    /// The broker's start script. Debian's `/usr/sbin/rabbitmq-server` only wraps it, to change to another user.
    static let server = "/usr/lib/rabbitmq/bin/rabbitmq-server"
    private static let programs = [
        (path: server, package: "rabbitmq-server"), (path: "/usr/bin/erl", package: "erlang-base"),
        (path: "/usr/bin/epmd", package: "erlang-base"), (path: "/bin/grep", package: "grep"),
    ]

    /// Makes the directory and starts the port mapper and the control node.
    static func start() async throws -> BrokerSite {
        for program in programs { try Self.require(program.path, package: program.package) }
        let directory = try GuardedDirectory()
        let port = try FreePort.pick(1)[0]
        let environment = directory.mark.merging([
            "PATH": "/usr/lib/rabbitmq/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": directory.path,
            "ERL_EPMD_ADDRESS": "127.0.0.1", "ERL_EPMD_PORT": "\(port)",
            // No dump into the directory that the tests run in.
            "ERL_CRASH_DUMP_SECONDS": "0",
        ]) { $1 }
        let cookie = directory.file(".erlang.cookie")
        try Data(UUID().uuidString.utf8).write(to: URL(filePath: cookie))
        // Erlang refuses one that others may read.
        try FileManager.default.setAttributes([.posixPermissions: 0o400], ofItemAtPath: cookie)
        let log = directory.file("epmd.log")
        // In the foreground: as a daemon it would change its number.
        let mapper = try SpawnedProcess("/usr/bin/epmd", [], environment: environment, log: log)
        while !FreePort.isListening(port) {
            guard mapper.ending == nil else {
                throw PrivateBrokerError("epmd did not start\n\(LogTail.of(log))", isPortClash: true)
            }
            try await Task.sleep(for: .milliseconds(2))
        }
        let control = try ControlNode(environment: environment, log: directory.file("control.log"))
        return BrokerSite(directory: directory, control: control, environment: environment)
    }

    private init(directory: GuardedDirectory, control: ControlNode, environment: [String: String]) {
        self.directory = directory
        self.control = control
        self.environment = environment
    }

    /// Throws where a program is not installed.
    static func require(_ program: String, package: String) throws {
        guard FileManager.default.isExecutableFile(atPath: program) else {
            throw PrivateBrokerError(
                "\(program) is missing; as root: apt-get install -y --no-install-recommends \(package)")
        }
    }
}
