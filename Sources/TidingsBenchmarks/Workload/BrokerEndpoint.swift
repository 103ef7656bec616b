import Foundation

/// Where a broker is, and who asks.
struct BrokerEndpoint: Sendable {
    let host: String
    let port: Int
    let user: String
    let password: String
    let virtualHost: String

    /// Reads `amqp://user:password@host:port/vhost`; what is missing is the guest on port 5672.
    init(_ url: String) throws(BenchmarkError) {
        // Never the URL itself in the error: it may hold a password.
        guard let parts = URLComponents(string: url), parts.scheme == "amqp", let host = parts.host, !host.isEmpty
        else { throw BenchmarkError("--broker needs amqp://user:password@host:port/vhost") }
        self.host = host
        port = parts.port ?? 5672
        user = parts.user ?? "guest"
        password = parts.password ?? "guest"
        let path = parts.path.dropFirst()
        virtualHost = path.isEmpty ? "/" : String(path)
    }
}
