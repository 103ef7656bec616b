internal import FoundationEssentials
internal import Glibc
public import PersistentHistory
public import TidingsAMQP

/// Which broker carries a store's history, and under which names; or none, and then consumers poll.
public struct Broker: Sendable {
    /// How to reach it; nil is no broker.
    public var configuration: AMQPConfiguration?
    /// What the names of all exchanges and queues begin with.
    public var prefix: String
    /// The store's name in routing keys and queues; nil is the name of its file without what follows the last dot.
    public var storeName: String?
    /// The user that was told, over the URLs'.
    private var toldUser: String?

    /// No broker: nothing is published, consumers poll.
    public static let none = Broker(nil)

    /// Describes a broker.
    public init(_ configuration: AMQPConfiguration?, prefix: String = "tidings", storeName: String? = nil) {
        self.configuration = configuration
        self.prefix = prefix
        self.storeName = storeName
    }

    /// Describes the broker of a URL, or of several hosts' URLs with commas between them.
    ///
    /// - Parameter user: ``user``, where certificates log in.
    /// - Throws: ``AMQPError`` `invalid`, naming the part at fault but no credential; also where the URLs log in as different
    ///   users, or as another than `user`.
    public init(
        urls: String, name: String = "tidings", prefix: String = "tidings", storeName: String? = nil,
        user: String? = nil
    ) throws(AMQPError) {
        self.init(try AMQPConfiguration(urls: urls, name: name), prefix: prefix, storeName: storeName)
        toldUser = user
        try checkUsers()
    }

    /// Describes the broker of the environment: `TIDINGS_AMQP_URL` (unset: none), or the first line of the file that
    /// `TIDINGS_AMQP_URL_FILE` names; `TIDINGS_BROKER_USER`, `TIDINGS_PREFIX`, `TIDINGS_STORE_NAME`.
    ///
    /// - Parameter environment: nil is the process's.
    public static func environment(
        _ environment: [String: String]? = nil
    ) throws -> Broker {
        let environment = environment ?? ProcessInfo.processInfo.environment
        let prefix = environment["TIDINGS_PREFIX"] ?? "tidings"
        let storeName = environment["TIDINGS_STORE_NAME"]
        var urls = environment["TIDINGS_AMQP_URL"] ?? ""
        if urls.isEmpty, let file = environment["TIDINGS_AMQP_URL_FILE"] {
            guard let text = try? String(contentsOfFile: file, encoding: .utf8) else {
                throw MessagingError(
                    .invalid, "\(file), named by TIDINGS_AMQP_URL_FILE, cannot be read: check path and permissions")
            }
            urls = text.split(separator: "\n").first.map(String.init) ?? ""
        }
        guard !urls.isEmpty else { return Broker(nil, prefix: prefix, storeName: storeName) }
        return try Broker(
            urls: urls, prefix: prefix, storeName: storeName, user: environment["TIDINGS_BROKER_USER"])
    }

    /// The names of exchanges, queues and keys for a store.
    public func names(for store: HistoryStore) -> BrokerNames {
        BrokerNames(prefix: prefix, store: storeName ?? Self.name(ofFile: store.path))
    }

    /// The user that the broker sees, and vouches for with every message: the URLs', unless another is set.
    ///
    /// nil where certificates log in, until their name is set here. Without it nobody can register a consumer or acknowledge:
    /// the cleaner refuses what nobody vouches for.
    public var user: String? {
        get { toldUser ?? users.first }
        set { toldUser = newValue }
    }

    /// Those who log in with a password.
    private var users: [String] {
        (configuration?.endpoints ?? []).compactMap { endpoint in
            if case .plain(let user, _) = endpoint.credentials { user } else { nil }
        }
    }

    /// Throws where the broker would see now one user, now another: messages in the name of the first would be refused
    /// at the host that knows the second.
    private func checkUsers() throws(AMQPError) {
        guard let user, let other = users.first(where: { $0 != user }) else { return }
        throw AMQPError(
            .invalid,
            toldUser == nil
                ? "the broker URLs log in as different users, '\(user)' and '\(other)': messages tell one user, whom every "
                    + "host must know: use one"
                : "the broker URL logs in as '\(other)', and the user is set to '\(user)': set it only where a certificate "
                    + "logs in")
    }

    /// A connection of its own for an agent; nil where there is no broker.
    func connection(_ purpose: String) throws -> AMQPConnection? {
        guard var configuration else { return nil }
        try checkUsers()
        configuration.name = "\(configuration.name) \(purpose)"
        return try AMQPConnection(configuration)
    }

    private static func name(ofFile path: String) -> String {
        let file = path.split(separator: "/").last.map(String.init) ?? path
        guard let dot = file.lastIndex(of: "."), dot != file.startIndex else { return file }
        return String(file[..<dot])
    }
}
