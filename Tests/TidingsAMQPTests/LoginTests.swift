import Testing
import TidingsAMQP
import TidingsTestKit

@Suite("Logging in", .timeLimit(.minutes(5)))
struct LoginTests {
    private let broker: PrivateBroker
    private let host: TestVirtualHost
    private let certificates: TestCertificates

    init() async throws {
        broker = try await PrivateBroker.shared()
        host = try await broker.makeVirtualHost()
        certificates = try #require(broker.options.tls)
    }

    private func endpoint(port: Int? = nil, virtualHost: String? = nil, password: String? = nil) -> AMQPEndpoint {
        AMQPEndpoint(
            host: "127.0.0.1", port: UInt16(port ?? broker.port), virtualHost: virtualHost ?? host.name,
            credentials: .plain(user: host.user, password: password ?? host.password))
    }

    /// An endpoint that logs in by certificate.
    private func certified(_ identity: TestCertificates.Identity?) throws -> AMQPEndpoint {
        AMQPEndpoint(
            host: "localhost", port: UInt16(try #require(broker.tlsPort)), virtualHost: host.name,
            credentials: .external,
            tls: TLSOptions(
                authorityFile: certificates.authority, certificateFile: identity?.certificate, keyFile: identity?.key))
    }

    @Test("the right password: messages go through")
    func accepted() async throws { try await roundTrip(endpoint()) }

    @Test("a wrong password is refused, and in no message", arguments: ["wrong and secret", "", "pässwörd"])
    func wrongPassword(password: String) async throws {
        let refused = endpoint(password: password)
        let error = try #require(try await refusal(refused))
        #expect(
            error
                == AMQPError(
                    .authentication,
                    "\(refused) refuses user '\(host.user)': check name and password "
                        + "(guest may connect from the broker's own host only)", replyCode: 403))
    }

    @Test("a virtual host that does not exist is told from one that is closed to the user")
    func virtualHosts() async throws {
        try await expectRefusal(
            endpoint(virtualHost: "no/such"), .virtualHost,
            "the virtual host 'no/such' at 127.0.0.1:\(broker.port) does not exist: create it (rabbitmqctl add_vhost), "
                + "or correct the URL", replyCode: 530)
        let other = try await broker.makeVirtualHost()
        try await expectRefusal(
            endpoint(virtualHost: other.name), .virtualHost,
            "the virtual host '\(other.name)' at 127.0.0.1:\(broker.port) is closed to user '\(host.user)': "
                + "give permissions (rabbitmqctl set_permissions -p), or correct the URL", replyCode: 530)
    }

    @Test("a limit of connections is told as one, and passes")
    func connectionLimit() async throws {
        _ = try await broker.evaluate(
            """
            ok = rabbit_vhost_limit:set(\(PrivateBroker.binary(host.name)), [{<<"max-connections">>, 0}], <<"tests">>)
            """)
        try await expectRefusal(
            endpoint(), .closedByBroker,
            "\(endpoint()) takes no more connections: NOT_ALLOWED - access to vhost '\(host.name)' refused for user "
                + "'\(host.user)': connection limit (0) is reached: close some, or raise the limit "
                + "(rabbitmqctl set_vhost_limits, set_user_limits)", replyCode: 530)
    }

    // One test: the name in the certificate is the same for all.
    @Test("EXTERNAL logs in as the name in the client's certificate, where that is a user's")
    func external() async throws {
        let endpoint = try certified(certificates.client)
        let refusal =
            " refuses the certificate's user: check that the certificate's name is a user's, and that the broker takes "
            + "names from certificates (ssl_cert_login_from)"
        try await expectRefusal(endpoint, .authentication, "\(endpoint)\(refusal)", replyCode: 403)
        let anonymous = try certified(nil)
        try await expectRefusal(anonymous, .authentication, "\(anonymous)\(refusal)", replyCode: 403)
        _ = try await host.addUser(named: TestCertificates.clientUser)
        try await roundTrip(endpoint)
        try await AMQPConnection.withConnection(.once(endpoint)) { connection in
            try await connection.declare(AMQPTopology(queues: [AMQPQueue("q", isDurable: false, isExclusive: true)]))
            let publisher = await connection.publisher()
            var message = AMQPMessage("mine")
            // The broker refuses the message where this is another than who has logged in.
            message.properties.userID = TestCertificates.clientUser
            #expect(try await publisher.publish(message, to: .queue("q")) == .confirmed)
        }
        try await host.delete()
    }

    @Test("a certificate that is not for clients is refused in TLS already")
    func serversCertificate() async throws {
        let endpoint = try certified(certificates.server)
        try await expectRefusal(
            endpoint, .tlsFailed,
            "no TLS with \(endpoint): check that the port speaks TLS 1.2 or later, and which client certificate it wants"
        )
    }

    @Test("EXTERNAL where the broker does not offer it")
    func externalNotOffered() async throws {
        let plain = try await PrivateBroker.start()
        let address = "127.0.0.1:\(plain.port) (virtual host '/')"
        try await expectRefusal(
            AMQPEndpoint(host: "127.0.0.1", port: UInt16(plain.port), credentials: .external), .authentication,
            "\(address) does not offer to log in by certificate: enable its plugin rabbitmq_auth_mechanism_ssl and "
                + "auth_mechanisms EXTERNAL, or use a password")
    }

    @Test("nobody listens: refused")
    func nobody() async throws {
        let peer = try OtherPeer(.refuses)
        let address = endpoint(port: Int(peer.port))
        try await expectRefusal(
            address, .refused,
            "nothing accepts connections at \(address): check that the broker runs there, and the port")
    }

    @Test("a name without an address", arguments: [nil, TLSOptions()])
    func unknownHost(tls: TLSOptions?) async throws {
        let address = AMQPEndpoint(host: "no-such-host.invalid", tls: tls)
        let error = try #require(try await refusal(address))
        #expect(error.code == .unknownHost)
        // The reason between is the resolver's, and differs where there is no network.
        #expect(error.message.hasPrefix("the host 'no-such-host.invalid' has no address ("))
        #expect(error.message.hasSuffix("): check the name in the broker URL"))
    }

    @Test("a port that takes connections and says nothing is late")
    func silent() async throws {
        let peer = try OtherPeer(.isSilent)
        var address = endpoint(port: Int(peer.port))
        address.connectTimeout = .seconds(1)
        try await expectRefusal(
            address, .timedOut,
            "\(address) accepted the connection and did not answer: check that it is a broker, and its health")
    }

    @Test("a port that hangs up, and one of TLS, are told as what ended the connection")
    func hangsUp() async throws {
        let peer = try OtherPeer(.answers([]))
        for port in [Int(peer.port), try #require(broker.tlsPort)] {
            let address = endpoint(port: port)
            try await expectRefusal(
                address, .connectionLost,
                "\(address) ended the connection during login: check that the port speaks AMQP 0-9-1 without TLS "
                    + "(amqps:// is with TLS), and the broker's log")
        }
    }

    @Test(
        "a port that speaks something else is told as such",
        arguments: ["HTTP/1.1 400 Bad Request\r\n\r\n", "AMQP\0\u{1}\0\0", "220 mail.example ESMTP\r\n"])
    func speaksOtherwise(answer: String) async throws {
        let peer = try OtherPeer(.answers(Array(answer.utf8)))
        let error = try #require(try await refusal(endpoint(port: Int(peer.port))))
        #expect(error.code == .protocolViolation)
        #expect(error.message.hasPrefix("\(endpoint(port: Int(peer.port))) does not speak AMQP 0-9-1"), "\(error)")
        #expect(error.message.hasSuffix(": check host and port"), "\(error)")
    }

    @Test("no credential is in anything that a program may print")
    func nothingPrinted() throws {
        let url = "amqps://user:hidden1@localhost/v?password=hidden2&keyfile=/k&certfile=/c"
        let configuration = try AMQPConfiguration(urls: url, name: "test")
        let endpoint = configuration.endpoints[0]
        var shown = "\(configuration) \(endpoint) \(endpoint.credentials) \(String(describing: endpoint.tls))"
        for value in [configuration, endpoint, endpoint.credentials, endpoint.tls as Any] as [Any] {
            shown += String(reflecting: value)
            dump(value, to: &shown)
        }
        #expect(!shown.contains("hidden"), "\(shown)")
        #expect(shown.contains("user"))
    }

    @Test(
        "a URL that cannot be read shows nothing of its password",
        arguments: [
            "amqp://u:hidden@h:port", "amqp://u:hid?den@h", "amqp://u:hid/den@h", "amqp://u:hid#den@h",
            "amqp://u:hid%den@h", "amqp://u:hidden@h/a/b", "amqp://u:hidden@[::1", "http://u:hidden@h",
            "u:hidden@h", "amqp://u:hidden@h?cacertfile=/x", "amqp://u:hidden@h?heartbeat=x", "amqp://u:hid,den@h",
        ])
    func malformedURL(url: String) throws {
        let error = #expect(throws: AMQPError.self) { try AMQPConfiguration(urls: url, name: "test") }
        #expect(error?.code == .invalid)
        #expect(
            error.map { !"\($0)".contains("hid") && !"\($0)".contains("den") } == true, "\(String(describing: error))")
    }
}
