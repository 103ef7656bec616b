import Foundation
import Testing
import TidingsTestKit

@Suite("TLS", .timeLimit(.minutes(3)))
struct BrokerTLSTests {
    @Test("the certificates are what their names say")
    func certificates() async throws {
        let certificates = try await TestCertificates.make()
        for good in [certificates.server, certificates.otherHost, certificates.client] {
            #expect(try await OpenSSL.verify(good, with: certificates.authority).contains(": OK"))
            let error = try await OpenSSL.verify(good, with: certificates.otherAuthority)
            #expect(error.contains("unable to get local issuer certificate"), "\(error)")
        }
        let expired = try await OpenSSL.verify(certificates.expired, with: certificates.authority)
        #expect(expired.contains("certificate has expired"), "\(expired)")
        let names = ["-noout", "-ext", "subjectAltName", "-in"]
        let here = "DNS:localhost, IP Address:127.0.0.1"
        #expect(try await OpenSSL.run(["x509"] + names + [certificates.server.certificate]).contains(here))
        #expect(try await OpenSSL.run(["x509"] + names + [certificates.expired.certificate]).contains(here))
        let elsewhere = try await OpenSSL.run(["x509"] + names + [certificates.otherHost.certificate])
        #expect(elsewhere.contains("DNS:elsewhere.example") && !elsewhere.contains("localhost"))
        let subject = ["x509", "-noout", "-subject", "-in", certificates.client.certificate]
        #expect(try await OpenSSL.run(subject) == "subject=CN = \(TestCertificates.clientUser)\n")
    }

    @Test("the encrypted key opens with its passphrase, and with no other")
    func encryptedKey() async throws {
        let certificates = try await TestCertificates.make()
        func key(_ passphrase: String) async throws -> String {
            try await OpenSSL.run(
                ["pkey", "-pubout", "-in", certificates.encryptedClientKey, "-passin", "pass:\(passphrase)"])
        }
        let plain = try await OpenSSL.run(["pkey", "-pubout", "-in", certificates.client.key])
        #expect(plain.hasPrefix("-----BEGIN PUBLIC KEY-----"))
        #expect(try await key(TestCertificates.passphrase) == plain)
        #expect(try await key("wrong") == "")
    }

    @Test("the certificates' directory goes with the last copy")
    func removed() async throws {
        var certificates: TestCertificates? = try await TestCertificates.make()
        let path = try #require(certificates?.authority)
        #expect(FileManager.default.fileExists(atPath: path))
        certificates = nil
        try await Gone.wait(for: [path])
    }

    @Test("the TLS port shows the server's certificate, and a client's is trusted")
    func port() async throws {
        let broker = try await PrivateBroker.shared()
        let certificates = try #require(broker.options.tls)
        let port = try #require(broker.tlsPort)
        let answer = try await OpenSSL.connect(port, trusting: certificates.authority, as: certificates.client)
        #expect(answer.contains("Verify return code: 0 (ok)"), "\(answer)")
        #expect(answer.contains("AMQP"), "\(answer)")
        let mechanisms = try await broker.evaluate(
            "lists:sort(element(2, application:get_env(rabbit, auth_mechanisms)))")
        #expect(mechanisms == "['EXTERNAL','PLAIN']")
        let stranger = try await OpenSSL.connect(port, trusting: certificates.otherAuthority)
        #expect(
            stranger.contains("Verify return code: 19 (self-signed certificate in certificate chain)"), "\(stranger)")
    }

    @Test("a further TLS port shows another certificate, and can insist on the client's")
    func furtherPorts() async throws {
        let broker = try await PrivateBroker.shared()
        let certificates = try #require(broker.options.tls)
        let expired = try await broker.openTLSPort(certificates.expired, of: certificates)
        let answer = try await OpenSSL.connect(expired, trusting: certificates.authority)
        #expect(answer.contains("Verify return code: 10 (certificate has expired)"), "\(answer)")
        #expect(answer.contains("AMQP"))
        let other = try await broker.openTLSPort(certificates.otherHost, of: certificates)
        let elsewhere = try await OpenSSL.connect(other, trusting: certificates.authority)
        #expect(elsewhere.contains("CN = elsewhere.example"), "\(elsewhere)")

        let strict = try await broker.openTLSPort(
            certificates.server, of: certificates, requiresClientCertificate: true)
        #expect(try await !OpenSSL.connect(strict, trusting: certificates.authority).contains("AMQP"))
        let known = try await OpenSSL.connect(strict, trusting: certificates.authority, as: certificates.client)
        #expect(known.contains("AMQP"), "\(known)")
    }
}

/// The `openssl` program: another view of certificates and ports than that of what is tested.
enum OpenSSL {
    static func run(_ arguments: [String]) async throws -> String {
        try await FinishedProcess.run("/usr/bin/openssl", arguments).output
    }

    static func verify(_ identity: TestCertificates.Identity, with authority: String) async throws -> String {
        let finished = try await FinishedProcess.run(
            "/usr/bin/openssl", ["verify", "-CAfile", authority, identity.certificate])
        return finished.output + finished.error
    }

    /// What a handshake ends with, and what the port then says to a client of another protocol.
    static func connect(
        _ port: Int, trusting authority: String, as client: TestCertificates.Identity? = nil
    ) async throws -> String {
        var arguments = ["s_client", "-connect", "127.0.0.1:\(port)", "-servername", "localhost", "-CAfile", authority]
        if let client { arguments += ["-cert", client.certificate, "-key", client.key] }
        let printable = #"/usr/bin/openssl "$@" 2>&1 | tr -cd '[:print:]\n'"#
        let finished = try await FinishedProcess.run(
            "/bin/sh", ["-c", printable, "openssl"] + arguments + ["-ign_eof"], input: Knock.otherProtocol)
        return finished.output
    }
}
