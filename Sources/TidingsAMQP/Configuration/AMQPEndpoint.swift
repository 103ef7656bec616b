/// One broker and how to log in to it.
public struct AMQPEndpoint: Sendable, Hashable, CustomStringConvertible {
    /// The host's name or address, without the brackets of IPv6.
    public var host: String
    /// The port.
    public var port: UInt16
    /// The virtual host.
    public var virtualHost: String
    /// How to log in.
    public var credentials: AMQPCredentials
    /// Files and checks of TLS; nil is without TLS.
    public var tls: TLSOptions?
    /// The URL's `heartbeat`, where it has one.
    public var heartbeat: Duration?
    /// The URL's `connection_timeout`, where it has one.
    public var connectTimeout: Duration?

    /// Makes an endpoint. The port is 5672, or 5671 with TLS, where none is given.
    public init(
        host: String, port: UInt16? = nil, virtualHost: String = "/",
        credentials: AMQPCredentials = .plain(user: "guest", password: "guest"), tls: TLSOptions? = nil
    ) {
        self.host = host
        self.port = port ?? (tls == nil ? 5672 : 5671)
        self.virtualHost = virtualHost
        self.credentials = credentials
        self.tls = tls
    }

    /// Host, port and virtual host; never a credential.
    public var description: String {
        let name = host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host
        return "\(name):\(port) (virtual host '\(virtualHost)'\(tls == nil ? "" : ", TLS"))"
    }
}

/// How to log in. Its description never shows the password.
public enum AMQPCredentials: Sendable, Hashable, CustomStringConvertible, CustomReflectable {
    /// A user and a password, sent as they are (SASL PLAIN): over TLS where others can listen.
    case plain(user: String, password: String)
    /// The name in the client's certificate (SASL EXTERNAL); needs TLS and a client certificate.
    case external

    /// The user's name, or that the certificate tells it.
    public var description: String {
        switch self {
        case .plain(let user, _): "user '\(user)'"
        case .external: "the certificate's user"
        }
    }

    /// Shows no password, to debuggers and `dump` either.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

/// Files and checks of TLS. Versions below 1.2 are never agreed on.
public struct TLSOptions: Sendable, Hashable, CustomReflectable {
    /// PEM file of the authorities to trust; nil is the system's.
    public var authorityFile: String?
    /// PEM file of the client's certificate, followed by those between it and the authority's.
    public var certificateFile: String?
    /// PEM file of the client's private key.
    public var keyFile: String?
    /// The passphrase of an encrypted key. There is never a prompt for one.
    public var keyPassphrase: String?
    /// False accepts any certificate for any host: for experiments on loopback.
    public var verifiesPeer: Bool

    /// Makes options that verify peer and host name.
    public init(
        authorityFile: String? = nil, certificateFile: String? = nil, keyFile: String? = nil,
        keyPassphrase: String? = nil, verifiesPeer: Bool = true
    ) {
        self.authorityFile = authorityFile
        self.certificateFile = certificateFile
        self.keyFile = keyFile
        self.keyPassphrase = keyPassphrase
        self.verifiesPeer = verifiesPeer
    }

    /// Shows no passphrase.
    public var customMirror: Mirror { Mirror(self, children: ["authorityFile": authorityFile as Any]) }
}
