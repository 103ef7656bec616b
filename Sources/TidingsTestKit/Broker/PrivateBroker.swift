internal import FoundationEssentials
internal import TidingsAMQP

/// A RabbitMQ of the test's own: on loopback, on free ports, with its own name, cookie, port mapper and directory.
///
/// ```swift
/// let virtualHost = try await PrivateBroker.shared().makeVirtualHost()
/// let connection = try await Connection.open(virtualHost.url)
/// ```
///
/// Starting one takes seconds, a virtual host milliseconds: tests share one, unless they kill, stop or block it.
/// Whatever was started ends with the object, and with the test process, however that ends.
public final class PrivateBroker: Sendable {
    /// How a broker is set up.
    public struct Options: Sendable {
        /// What the broker identifies itself with over TLS, and whom it trusts; nil is no TLS.
        ///
        /// With TLS a client may also log in with its certificate (`EXTERNAL`): its common name is the user.
        public var tls: TestCertificates?
        /// Plugins to enable, such as `rabbitmq_consistent_hash_exchange`.
        public var plugins: [String]
        /// Further lines of rabbitmq.conf.
        public var settings: [String: String]

        /// A broker without TLS, plugins or settings, unless told otherwise.
        public init(tls: TestCertificates? = nil, plugins: [String] = [], settings: [String: String] = [:]) {
            self.tls = tls
            self.plugins = plugins
            self.settings = settings
        }
    }

    /// The port for AMQP on 127.0.0.1; the same for as long as the object lives.
    public let port: Int
    /// The port for AMQP over TLS; nil where the options have none.
    public let tlsPort: Int?
    /// The name of the Erlang node.
    public let nodeName: String
    /// How the broker was set up.
    public let options: Options
    let site: BrokerSite
    private let distributionPort: Int
    private let current: Locked<SpawnedProcess?> = Locked(nil)

    private static let first = Locked<Task<PrivateBroker, any Error>?>(nil)

    /// The broker of the whole test run, started by whoever asks first; it speaks TLS.
    ///
    /// Tests have it for their virtual hosts, and leave it running and unblocked.
    ///
    /// - Throws: ``PrivateBrokerError``, and the same error again for each who asks, where it cannot be started.
    public static func shared() async throws -> PrivateBroker {
        let starting = first.withLock { first in
            if let first { return first }
            // Not a child of the test that asks first: that one may be cancelled while others wait.
            let task = Task { try await start(Options(tls: TestCertificates.make())) }
            first = task
            return task
        }
        return try await starting.value
    }

    /// Starts a broker and waits until it accepts AMQP.
    ///
    /// - Throws: ``PrivateBrokerError`` with the end of the broker's log, or with the package that is missing.
    public static func start(_ options: Options = Options()) async throws -> PrivateBroker {
        try await retryingPortClashes {
            let broker = try PrivateBroker(options, in: try await BrokerSite.start(), number: 1)
            try broker.configure()
            try await broker.start()
            return broker
        }
    }

    static func retryingPortClashes<Result>(_ body: () async throws -> Result) async throws -> Result {
        for _ in 0..<2 {
            do {
                return try await body()
            } catch let error as PrivateBrokerError where error.isPortClash {
                continue
            }
        }
        return try await body()
    }

    init(_ options: Options, in site: BrokerSite, number: Int) throws {
        let ports = try FreePort.pick(3)
        port = ports[0]
        distributionPort = ports[1]
        tlsPort = options.tls == nil ? nil : ports[2]
        nodeName = "broker_\(port)_\(number)@localhost"
        self.options = options
        self.site = site
    }

    /// The broker's directory, with its logs and its data; removed when the broker ends.
    public var directory: String { site.directory.file(String(nodeName.prefix { $0 != "@" })) }

    /// The number of the broker's process; that of the last one while it is down.
    public var processID: Int32 { process?.processID ?? 0 }

    /// The last process that was started.
    var process: SpawnedProcess? { current.withLock { $0 } }

    /// What the broker writes, by all its processes.
    var log: String { "\(directory)/console.log" }

    /// Writes the configuration.
    func configure(settings: [(String, String)] = []) throws {
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        var lines = settings
        var plugins = options.plugins
        // A full disk is not what is tested.
        lines.append(("disk_free_limit.absolute", "1MB"))
        if let tls = options.tls, let tlsPort {
            plugins.append("rabbitmq_auth_mechanism_ssl")
            lines += [
                ("listeners.ssl.1", "127.0.0.1:\(tlsPort)"),
                ("ssl_options.cacertfile", tls.authority),
                ("ssl_options.certfile", tls.server.certificate),
                ("ssl_options.keyfile", tls.server.key),
                ("ssl_options.verify", "verify_peer"),
                ("ssl_options.fail_if_no_peer_cert", "false"),
                ("auth_mechanisms.1", "PLAIN"),
                ("auth_mechanisms.2", "EXTERNAL"),
                ("ssl_cert_login_from", "common_name"),
            ]
        }
        lines += options.settings.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        let text = lines.map { "\($0.0) = \($0.1)\n" }.joined()
        try Data(text.utf8).write(to: URL(filePath: "\(directory)/rabbitmq.conf"))
        let enabled = "[\(plugins.joined(separator: ","))]."
        try Data(enabled.utf8).write(to: URL(filePath: "\(directory)/enabled_plugins"))
    }

    /// Starts the process, and does not wait until it is ready.
    func launch() throws -> SpawnedProcess {
        let own = [
            // The script then becomes the broker instead of waiting for it: one process, whose number is known.
            "RUNNING_UNDER_SYSTEMD": "true",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_NODENAME": nodeName,
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": "\(port)",
            "RABBITMQ_DIST_PORT": "\(distributionPort)",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CONFIG_FILE": "\(directory)/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": "\(directory)/enabled_plugins",
            "RABBITMQ_MNESIA_BASE": "\(directory)/data",
            "RABBITMQ_LOG_BASE": "\(directory)/log",
            "RABBITMQ_PID_FILE": "\(directory)/pid",
            "RABBITMQ_PLUGINS_EXPAND_DIR": "\(directory)/plugins",
            "RABBITMQ_GENERATED_CONFIG_DIR": "\(directory)/generated",
        ]
        let environment = site.environment.merging(own) { $1 }
        return try current.withLock { current in
            guard current == nil || current?.ending != nil else {
                throw PrivateBrokerError("\(nodeName) is running already")
            }
            let process = try SpawnedProcess(BrokerSite.server, [], environment: environment, log: log)
            current = process
            return process
        }
    }
}
