extension PrivateBroker {
    /// Opens a further port for AMQP over TLS where the broker identifies itself with something else, such as an
    /// expired certificate; in milliseconds, also on a shared broker. It is open until the broker is stopped.
    ///
    /// - Parameters:
    ///   - identity: what the broker shows.
    ///   - certificates: where the identity is from; clients are trusted whose certificates are of its authority.
    ///   - requiresClientCertificate: whether a client without a certificate is turned away.
    /// - Returns: the port.
    public func openTLSPort(
        _ identity: TestCertificates.Identity, of certificates: TestCertificates,
        requiresClientCertificate: Bool = false
    ) async throws -> Int {
        let port = try FreePort.pick(1)[0]
        func path(_ path: String) -> String { "binary_to_list(\(Self.binary(path)))" }
        _ = try await evaluate(
            """
            rabbit_networking:ensure_ssl(),
            ok = rabbit_networking:start_ssl_listener({"127.0.0.1", \(port)}, [
                {cacertfile, \(path(certificates.authority))}, {certfile, \(path(identity.certificate))},
                {keyfile, \(path(identity.key))}, {verify, verify_peer},
                {fail_if_no_peer_cert, \(requiresClientCertificate)}], 1)
            """)
        return port
    }
}
