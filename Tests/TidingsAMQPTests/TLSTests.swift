import Testing
import TidingsAMQP
import TidingsTestKit

@Suite("TLS", .timeLimit(.minutes(5)))
struct TLSTests {
    private let broker: PrivateBroker
    private let host: TestVirtualHost
    private let certificates: TestCertificates

    init() async throws {
        broker = try await PrivateBroker.shared()
        host = try await broker.makeVirtualHost()
        certificates = try #require(broker.options.tls)
    }

    /// The broker, by the name in its certificate and trusting its authority unless told otherwise.
    private func endpoint(
        _ name: String = "localhost", port: Int? = nil, authority: String?? = .none, tls: TLSOptions = TLSOptions()
    ) throws -> AMQPEndpoint {
        var tls = tls
        tls.authorityFile = authority ?? certificates.authority
        return AMQPEndpoint(
            host: name, port: UInt16(try port ?? #require(broker.tlsPort)), virtualHost: host.name,
            credentials: .plain(user: host.user, password: host.password), tls: tls)
    }

    private func client(_ key: String? = nil, passphrase: String? = nil) -> TLSOptions {
        TLSOptions(
            certificateFile: certificates.client.certificate, keyFile: key ?? certificates.client.key,
            keyPassphrase: passphrase)
    }

    @Test("P19: the right authority and the right name: accepted, messages go through")
    func accepted() async throws { try await roundTrip(endpoint()) }

    @Test("an IP address that the certificate holds is accepted")
    func addressInCertificate() async throws { try await roundTrip(endpoint("127.0.0.1")) }

    @Test("all parameters of the URL together")
    func byURL() async throws {
        let query = [
            "cacertfile=\(certificates.authority)", "certfile=\(certificates.client.certificate)",
            "keyfile=\(certificates.encryptedClientKey)", "password=open%20sesame", "verify=verify_peer",
            "server_name_indication=localhost", "heartbeat=5", "connection_timeout=20", "auth_mechanism=PLAIN",
        ]
        let url = try #require(host.tlsURL()) + "?" + query.joined(separator: "&")
        try await roundTrip(AMQPEndpoint(url: url))
    }

    @Test("P19: a wrong authority is refused", arguments: ["localhost", "127.0.0.1"])
    func wrongAuthority(name: String) async throws {
        let port = try #require(broker.tlsPort)
        try await expectRefusal(
            endpoint(name, authority: certificates.otherAuthority), .tlsUntrusted,
            "the certificate of \(name):\(port) (virtual host '\(host.name)', TLS) was not issued by a trusted "
                + "authority: self-signed certificate in certificate chain: name its CA (cacertfile)")
    }

    @Test("without a CA file the system's authorities are trusted, and no other")
    func systemAuthorities() async throws {
        let port = try #require(broker.tlsPort)
        try await expectRefusal(
            endpoint(authority: .some(nil)), .tlsUntrusted,
            "the certificate of localhost:\(port) (virtual host '\(host.name)', TLS) was not issued by a trusted "
                + "authority: self-signed certificate in certificate chain: name its CA (cacertfile)")
    }

    @Test(
        "P19: a certificate for another host is refused, by name and by address", arguments: ["localhost", "127.0.0.1"])
    func wrongHost(name: String) async throws {
        let port = try await broker.openTLSPort(certificates.otherHost, of: certificates)
        try await expectRefusal(
            endpoint(name, port: port), .tlsHostMismatch,
            "the certificate of \(name):\(port) (virtual host '\(host.name)', TLS) is for another host: "
                + "connect by a name that it holds, or renew it with this one")
    }

    @Test("an IP address that the certificate does not hold is refused, though it holds another")
    func addressNotInCertificate() async throws {
        let server = try await OpenSSLServer(address: "127.0.0.2", certificates.server, [])
        try await expectRefusal(
            endpoint("127.0.0.2", port: Int(server.port)), .tlsHostMismatch,
            "the certificate of 127.0.0.2:\(server.port) (virtual host '\(host.name)', TLS) is for another host: "
                + "connect by a name that it holds, or renew it with this one")
    }

    @Test("P19: an expired certificate is refused", arguments: ["localhost", "127.0.0.1"])
    func expired(name: String) async throws {
        let port = try await broker.openTLSPort(certificates.expired, of: certificates)
        try await expectRefusal(
            endpoint(name, port: port), .tlsUntrusted,
            "the certificate of \(name):\(port) (virtual host '\(host.name)', TLS) is not valid today: "
                + "certificate has expired: renew it, or set the clock")
    }

    @Test("verify_none takes any certificate, for experiments")
    func unverified() async throws {
        for identity in [certificates.expired, certificates.otherHost] {
            let port = try await broker.openTLSPort(identity, of: certificates)
            let options = TLSOptions(verifiesPeer: false)
            try await roundTrip(endpoint(port: port, authority: certificates.otherAuthority, tls: options))
        }
    }

    @Test("a broker that insists on the client's certificate takes it, and without one is left with the remedy")
    func requiredClientCertificate() async throws {
        let port = try await broker.openTLSPort(certificates.server, of: certificates, requiresClientCertificate: true)
        try await roundTrip(endpoint(port: port, tls: client()))
        try await expectRefusal(
            endpoint(port: port), .tlsFailed,
            "no TLS with localhost:\(port) (virtual host '\(host.name)', TLS): check that the port speaks TLS 1.2 or "
                + "later, and which client certificate it wants")
    }

    @Test("an encrypted key opens with its passphrase; without or with another it fails at once")
    func encryptedKey() async throws {
        let key = certificates.encryptedClientKey
        try await roundTrip(endpoint(tls: client(key, passphrase: TestCertificates.passphrase)))
        for passphrase in [nil, "", "close sesame"] {
            try await expectRefusal(
                endpoint(tls: client(key, passphrase: passphrase)), .tlsFile,
                "the certificate \(certificates.client.certificate) and the key \(key) cannot be used together: both "
                    + "must be in PEM form and belong to each other, and an encrypted key needs its passphrase")
        }
    }

    @Test("a key that belongs to another certificate is refused before anything is sent")
    func foreignKey() async throws {
        let key = certificates.server.key
        try await expectRefusal(
            endpoint(tls: client(key)), .tlsFile,
            "the certificate \(certificates.client.certificate) and the key \(key) cannot be used together: both "
                + "must be in PEM form and belong to each other, and an encrypted key needs its passphrase")
    }

    @Test("files that are not there, or hold something else, are named")
    func files() async throws {
        let directory = try TemporaryDirectory()
        let missing = directory.file("missing.pem")
        try await expectRefusal(
            endpoint(authority: missing), .tlsFile, "the CA file \(missing) cannot be read: No such file or directory")
        try await expectRefusal(
            endpoint(tls: client(missing)), .tlsFile,
            "the key file \(missing) cannot be read: No such file or directory")
        try await expectRefusal(
            endpoint(tls: TLSOptions(certificateFile: missing, keyFile: certificates.client.key)), .tlsFile,
            "the certificate file \(missing) cannot be read: No such file or directory")
        // A key is no certificate.
        try await expectRefusal(
            endpoint(authority: certificates.server.key), .tlsFile,
            "the CA file \(certificates.server.key) holds no certificate in PEM form")
    }

    @Test("TLS below 1.2 is not agreed on, whatever the peer offers")
    func oldVersion() async throws {
        let old = ["-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"]
        let server = try await OpenSSLServer(certificates.server, old)
        // The server does speak it, to those who let it.
        let knock = ["s_client", "-connect", "127.0.0.1:\(server.port)", "-CAfile", certificates.authority]
        let control = try await FinishedProcess.run("/usr/bin/openssl", knock + old)
        #expect(control.output.contains("Protocol  : TLSv1.1"), "\(control.output)\(control.error)")
        try await expectRefusal(
            endpoint(port: Int(server.port)), .tlsFailed,
            "no TLS with localhost:\(server.port) (virtual host '\(host.name)', TLS): check that the port speaks "
                + "TLS 1.2 or later, and which client certificate it wants")
    }

    @Test("a port without TLS is no TLS, and one that says nothing is late")
    func noTLS() async throws {
        try await expectRefusal(
            endpoint(port: broker.port), .tlsFailed,
            "no TLS with localhost:\(broker.port) (virtual host '\(host.name)', TLS): check that the port speaks "
                + "TLS 1.2 or later, and which client certificate it wants")
        let silent = try OtherPeer(.isSilent)
        var late = try endpoint("127.0.0.1", port: Int(silent.port))
        late.connectTimeout = .seconds(1)
        try await expectRefusal(
            late, .timedOut,
            "127.0.0.1:\(silent.port) (virtual host '\(host.name)', TLS) did not answer within 1.0 seconds: "
                + "check host, port and firewall")
    }
}
