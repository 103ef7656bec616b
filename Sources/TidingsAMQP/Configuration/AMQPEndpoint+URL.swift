extension AMQPEndpoint {
    /// Reads a broker's URL.
    ///
    /// `amqp://` or `amqps://`, then optionally `user:password@` (guest and guest), host (localhost), `:port`,
    /// `/vhost` (`/`; a lone slash too) and parameters: `heartbeat` and `connection_timeout` in seconds,
    /// `auth_mechanism=plain|external`, and with `amqps` `cacertfile`, `certfile`, `keyfile`, `password` (the key's),
    /// `verify=verify_peer|verify_none`, `server_name_indication` (the host, or it is refused). Everything
    /// percent-encoded.
    /// [URI specification](https://www.rabbitmq.com/uri-spec.html),
    /// [parameters](https://www.rabbitmq.com/uri-query-parameters.html)
    ///
    /// Throws `invalid`, naming the part at fault but no credential.
    public init(url: String) throws(AMQPError) {
        var parser = URLParser(url)
        let isTLS = try parser.scheme()
        let parts = try parser.parts()
        self.init(
            host: parts.host, port: parts.port, virtualHost: parts.virtualHost,
            credentials: .plain(user: parts.user ?? "guest", password: parts.password ?? "guest"),
            tls: isTLS ? TLSOptions() : nil)
        for (name, value) in parts.parameters { try apply(name, value) }
        if let tls, (tls.certificateFile == nil) != (tls.keyFile == nil) {
            throw AMQPError(.invalid, "certfile and keyfile belong together: the broker URL has only one of them")
        }
        guard credentials != .external || tls?.certificateFile != nil else {
            throw AMQPError(.invalid, "auth_mechanism=external needs amqps:// with certfile and keyfile")
        }
    }

    private mutating func apply(_ name: String, _ value: String) throws(AMQPError) {
        switch name {
        case "heartbeat": heartbeat = .seconds(try Self.number(name, value, 0...3600))
        case "connection_timeout": connectTimeout = .seconds(try Self.number(name, value, 1...3600))
        case "auth_mechanism":
            switch value.lowercased() {
            case "plain": break
            case "external": credentials = .external
            default: throw Self.bad(name, "plain or external")
            }
        default: try applyTLS(name, value)
        }
    }

    private mutating func applyTLS(_ name: String, _ value: String) throws(AMQPError) {
        guard tls != nil else {
            throw AMQPError(.invalid, "'\(name)' in the broker URL is about TLS: use amqps://, or take it out")
        }
        switch name {
        case "cacertfile": tls?.authorityFile = value
        case "certfile": tls?.certificateFile = value
        case "keyfile": tls?.keyFile = value
        case "password": tls?.keyPassphrase = value
        case "verify":
            guard value == "verify_peer" || value == "verify_none" else {
                throw Self.bad(name, "verify_peer or verify_none")
            }
            tls?.verifiesPeer = value == "verify_peer"
        default:
            guard value == host else {
                throw AMQPError(
                    .invalid,
                    "server_name_indication must be the host of the broker URL: connect by the certificate's name"
                )
            }
        }
    }

    private static func number(_ name: String, _ value: String, _ range: ClosedRange<Int>) throws(AMQPError) -> Int {
        guard let number = Int(value), range.contains(number) else {
            throw bad(name, "a number of seconds from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    private static func bad(_ name: String, _ wanted: String) -> AMQPError {
        AMQPError(.invalid, "'\(name)' in the broker URL takes \(wanted)")
    }
}
