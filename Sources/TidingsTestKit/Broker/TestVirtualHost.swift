internal import FoundationEssentials
internal import TidingsAMQP

/// A virtual host of a test's own, with a user who may do everything in it and nothing elsewhere.
public final class TestVirtualHost: Sendable {
    /// Who may log in, and how.
    public struct Login: Sendable {
        /// The name of the user.
        public let user: String
        /// The password.
        public let password: String
        /// `amqp://user:password@127.0.0.1:port/name`.
        public let url: String
        /// `amqps://user:password@localhost:port/name`; nil where the broker has no TLS.
        public let tlsURL: String?
    }

    /// The name of the virtual host.
    public let name: String
    /// The broker that it was made on; in a cluster it is on all nodes.
    public let broker: PrivateBroker
    /// The user who may do everything.
    public let login: Login
    private let users: Locked<[String]>

    init(on broker: PrivateBroker) async throws {
        self.broker = broker
        name = "test-\(Self.unique())"
        login = Self.login(Self.unique(), in: name, on: broker)
        users = Locked([login.user])
        let binary = PrivateBroker.binary(name)
        _ = try await broker.evaluate("ok = rabbit_vhost:add(\(binary), <<\"tests\">>)")
        try await add(login, configure: ".*", write: ".*", read: ".*")
    }

    /// The name of the user who may do everything.
    public var user: String { login.user }

    /// The password of the user who may do everything.
    public var password: String { login.password }

    /// `amqp://user:password@127.0.0.1:port/name`.
    public var url: String { login.url }

    /// `amqps://user:password@host:port/name`; nil where the broker has no TLS.
    public func tlsURL(host: String = "localhost") -> String? {
        broker.tlsPort.map { Self.url("amqps", user, password, host, $0, name) }
    }

    /// The address of the virtual host on another node of the cluster.
    public func url(on node: PrivateBroker) -> String { Self.url("amqp", user, password, "127.0.0.1", node.port, name) }

    /// Makes a user who may do in this virtual host what the patterns allow, and nothing elsewhere.
    ///
    /// - Parameters:
    ///   - user: the name, such as the one in a client's certificate; a new one where it is nil.
    ///   - configure: a regular expression for the names of queues and exchanges that they may declare and delete.
    ///   - write: one for those that they may publish to.
    ///   - read: one for those that they may consume from.
    public func addUser(
        named user: String? = nil, configure: String = ".*", write: String = ".*", read: String = ".*"
    ) async throws -> Login {
        let login = Self.login(user ?? Self.unique(), in: name, on: broker)
        try await add(login, configure: configure, write: write, read: read)
        users.withLock { $0.append(login.user) }
        return login
    }

    /// Deletes the virtual host with all that is in it, and its users. Connections to it are closed.
    public func delete() async throws {
        var expressions = "ok = rabbit_vhost:delete(\(PrivateBroker.binary(name)), <<\"tests\">>)"
        for user in users.withLock({ $0 }) {
            expressions += ", rabbit_auth_backend_internal:delete_user(\(PrivateBroker.binary(user)), <<\"tests\">>)"
        }
        _ = try await broker.evaluate(expressions)
    }

    private func add(_ login: Login, configure: String, write: String, read: String) async throws {
        let user = PrivateBroker.binary(login.user)
        let patterns = [configure, write, read].map(PrivateBroker.binary).joined(separator: ", ")
        _ = try await broker.evaluate(
            """
            ok = rabbit_auth_backend_internal:add_user(\(user), \(PrivateBroker.binary(login.password)), <<"tests">>),
            ok = rabbit_auth_backend_internal:set_permissions(
                \(user), \(PrivateBroker.binary(name)), \(patterns), <<"tests">>)
            """)
    }

    private static func login(_ user: String, in name: String, on broker: PrivateBroker) -> Login {
        let password = unique()
        return Login(
            user: user, password: password, url: url("amqp", user, password, "127.0.0.1", broker.port, name),
            tlsURL: broker.tlsPort.map { url("amqps", user, password, "localhost", $0, name) })
    }

    private static func url(
        _ scheme: String, _ user: String, _ password: String, _ host: String, _ port: Int, _ name: String
    ) -> String { "\(scheme)://\(user):\(password)@\(host):\(port)/\(name)" }

    /// Letters and digits that no other has, and that mean nothing in an address.
    private static func unique() -> String { UUID().uuidString.split(separator: "-").joined().lowercased() }
}

extension PrivateBroker {
    /// Makes a virtual host and a user for a test, in milliseconds.
    public func makeVirtualHost() async throws -> TestVirtualHost { try await TestVirtualHost(on: self) }
}
