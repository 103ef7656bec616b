internal import FoundationEssentials

/// Certificates for tests of TLS, made anew by the `openssl` program in a directory that goes with the last copy.
public struct TestCertificates: Sendable {
    /// A certificate and its key, as paths of PEM files.
    public struct Identity: Sendable, Hashable {
        /// The certificate.
        public let certificate: String
        /// The key, which no passphrase protects.
        public let key: String
    }

    /// The name in ``client``: with it a client logs in as the user of this name.
    public static let clientUser = "certified-client"
    /// What opens ``encryptedClientKey``.
    public static let passphrase = "open sesame"

    private let directory: GuardedDirectory

    /// Makes them all; takes about a tenth of a second.
    ///
    /// - Throws: ``PrivateBrokerError`` with the words of `openssl`, or with the package that is missing.
    public static func make() async throws -> TestCertificates {
        try BrokerSite.require(openssl, package: "openssl")
        let certificates = TestCertificates(directory: try GuardedDirectory())
        try await certificates.makeAuthority("authority", named: "An authority for tests")
        try await certificates.makeAuthority("stranger", named: "An authority that signed nothing")
        let here = "subjectAltName=DNS:localhost,IP:127.0.0.1"
        try await certificates.issue("server", to: "localhost", extensions: [here, "extendedKeyUsage=serverAuth"])
        try await certificates.issue(
            "elsewhere", to: "elsewhere.example",
            extensions: ["subjectAltName=DNS:elsewhere.example", "extendedKeyUsage=serverAuth"])
        try await certificates.issueExpired("expired", to: "localhost")
        try await certificates.issue("client", to: clientUser, extensions: ["extendedKeyUsage=clientAuth"])
        try await certificates.run(
            "pkey", "-in", certificates.client.key, "-aes256", "-passout", "pass:\(passphrase)", "-out",
            certificates.encryptedClientKey)
        return certificates
    }

    /// The certificate of the authority that signed them.
    public var authority: String { directory.file("authority.pem") }

    /// The certificate of an authority that signed none of them.
    public var otherAuthority: String { directory.file("stranger.pem") }

    /// A server's, for the names `localhost` and 127.0.0.1.
    public var server: Identity { identity("server") }

    /// A server's, for another host's name.
    public var otherHost: Identity { identity("elsewhere") }

    /// A server's, for `localhost` and 127.0.0.1, no longer valid.
    public var expired: Identity { identity("expired") }

    /// A client's, for ``clientUser``.
    public var client: Identity { identity("client") }

    /// The key of ``client``, protected by ``passphrase``.
    public var encryptedClientKey: String { directory.file("client-encrypted.key") }

    private static let openssl = "/usr/bin/openssl"

    private func identity(_ name: String) -> Identity {
        Identity(certificate: directory.file("\(name).pem"), key: directory.file("\(name).key"))
    }

    private func makeAuthority(_ name: String, named subject: String) async throws {
        let extensions = ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign"]
        try await request(
            name, subject, ["-x509", "-days", "30"] + extensions.flatMap { ["-addext", $0] },
            output: identity(name).certificate)
    }

    private func issue(_ name: String, to subject: String, extensions: [String]) async throws {
        let signer = identity("authority")
        let all = ["basicConstraints=CA:FALSE"] + extensions
        try await request(
            name, subject,
            ["-x509", "-days", "30", "-CA", signer.certificate, "-CAkey", signer.key]
                + all.flatMap { ["-addext", $0] },
            output: identity(name).certificate)
    }

    /// A key, and what is made for it: a certificate, or the request for one.
    private func request(_ name: String, _ subject: String, _ arguments: [String], output: String) async throws {
        // No configuration of the machine's: it would add extensions.
        let common = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-config", "/dev/null"]
        try await run(
            common + ["-subj", "/CN=\(subject)", "-keyout", identity(name).key, "-out", output] + arguments)
    }

    /// Only `openssl ca` lets both dates be chosen.
    private func issueExpired(_ name: String, to subject: String) async throws {
        let configuration = """
            [ca]
            default_ca = authority
            [authority]
            database = \(directory.file("issued"))
            new_certs_dir = \(directory.path)
            rand_serial = yes
            default_md = sha256
            policy = policy
            [policy]
            commonName = supplied
            [server]
            basicConstraints = CA:FALSE
            subjectAltName = DNS:localhost,IP:127.0.0.1
            extendedKeyUsage = serverAuth

            """
        try Data(configuration.utf8).write(to: URL(filePath: directory.file("authority.conf")))
        try Data().write(to: URL(filePath: directory.file("issued")))
        let request = directory.file("\(name).request")
        try await self.request(name, subject, [], output: request)
        let signer = identity("authority")
        try await run(
            "ca", "-batch", "-notext", "-config", directory.file("authority.conf"), "-cert", signer.certificate,
            "-keyfile", signer.key, "-in", request, "-out", identity(name).certificate, "-startdate",
            "20200101000000Z", "-enddate", "20200102000000Z", "-extensions", "server")
    }

    private func run(_ arguments: String...) async throws { try await run(arguments) }

    private func run(_ arguments: [String]) async throws {
        let finished = try await FinishedProcess.run(Self.openssl, arguments)
        guard finished.ending == .exited(0) else {
            throw PrivateBrokerError("openssl \(arguments.joined(separator: " ")):\n\(finished.error)")
        }
    }
}
