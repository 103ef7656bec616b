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
    /// Throws ``AMQPError`` `invalid`, naming the part at fault but no credential.
    public init(
        urls: String, name: String = "tidings", prefix: String = "tidings", storeName: String? = nil
    ) throws(AMQPError) {
        self.init(try AMQPConfiguration(urls: urls, name: name), prefix: prefix, storeName: storeName)
    }

    /// Describes the broker of the environment: `TIDINGS_AMQP_URL` (unset: none), or the first line of the file that
    /// `TIDINGS_AMQP_URL_FILE` names; `TIDINGS_PREFIX`, `TIDINGS_STORE_NAME`.
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
        return try Broker(urls: urls, prefix: prefix, storeName: storeName)
    }

    /// The names of exchanges, queues and keys for a store.
    public func names(for store: HistoryStore) -> BrokerNames {
        BrokerNames(prefix: prefix, store: storeName ?? Self.name(ofFile: store.path))
    }

    /// The user that the broker sees; nil where a certificate tells it.
    public var user: String? {
        guard case .plain(let user, _)? = configuration?.endpoints.first?.credentials else { return nil }
        return user
    }

    /// A connection of its own for an agent; nil where there is no broker.
    func connection(_ purpose: String) throws -> AMQPConnection? {
        guard var configuration else { return nil }
        configuration.name = "\(configuration.name) \(purpose)"
        return try AMQPConnection(configuration)
    }

    private static func name(ofFile path: String) -> String {
        let file = path.split(separator: "/").last.map(String.init) ?? path
        guard let dot = file.lastIndex(of: "."), dot != file.startIndex else { return file }
        return String(file[..<dot])
    }
}
