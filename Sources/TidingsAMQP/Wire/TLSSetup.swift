internal import CTidingsRabbitMQ
internal import Glibc

/// Puts a TLS socket in order before it is opened.
struct TLSSetup {
    let options: TLSOptions
    /// What the connection will be opened to.
    let host: String

    /// Applies the options. Throws `tlsFile`, naming the file, where one cannot be used.
    ///
    /// [amqp_ssl_socket.h](https://github.com/alanxz/rabbitmq-c/blob/v0.11.0/librabbitmq/amqp_ssl_socket.h)
    func apply(to socket: OpaquePointer) throws(AMQPError) {
        // Without this, version 0.11 permits TLS 1.0.
        let status = unsafe amqp_ssl_socket_set_ssl_versions(socket, AMQP_TLSv1_2, AMQP_TLSvLATEST)
        guard status == AMQP_STATUS_OK.rawValue else {
            throw AMQPError(.tlsFailed, "TLS 1.2 cannot be set as the least version: \(LibraryStatus(status).text)")
        }
        try unsafe trust(socket)
        try unsafe present(socket)
    }

    private func trust(_ socket: OpaquePointer) throws(AMQPError) {
        unsafe amqp_ssl_socket_set_verify_peer(socket, options.verifiesPeer ? 1 : 0)
        unsafe amqp_ssl_socket_set_verify_hostname(socket, options.verifiesPeer ? 1 : 0)
        if let file = options.authorityFile {
            try Self.checkReadable(file, "the CA file")
            guard unsafe amqp_ssl_socket_set_cacert(socket, file) == AMQP_STATUS_OK.rawValue else {
                throw AMQPError(.tlsFile, "the CA file \(file) holds no certificate in PEM form")
            }
        } else if options.verifiesPeer, unsafe !TLSLibrary.trustSystem(socket) {
            throw AMQPError(.tlsFile, "the system's trusted authorities cannot be loaded: name a CA file (cacertfile)")
        }
        guard options.verifiesPeer else { return }
        if Self.isAddress(host), unsafe TLSLibrary.expect(address: host, of: socket) {
            unsafe amqp_ssl_socket_set_verify_hostname(socket, 0)
        }
        unsafe TLSLibrary.noteRefusals(of: socket)
    }

    private func present(_ socket: OpaquePointer) throws(AMQPError) {
        guard let certificate = options.certificateFile, let key = options.keyFile else { return }
        try Self.checkReadable(certificate, "the certificate file")
        try Self.checkReadable(key, "the key file")
        // Always set: without it the TLS library asks for the passphrase of an encrypted key on the terminal, and waits.
        // It keeps the pointer, and reads it while the key is loaded.
        let status = unsafe (options.keyPassphrase ?? "").withCString { passphrase in
            unsafe amqp_ssl_socket_set_key_passwd(socket, passphrase)
            return unsafe amqp_ssl_socket_set_key(socket, certificate, key)
        }
        guard status == AMQP_STATUS_OK.rawValue else {
            throw AMQPError(
                .tlsFile,
                "the certificate \(certificate) and the key \(key) cannot be used together: both must be in PEM form "
                    + "and belong to each other, and an encrypted key needs its passphrase")
        }
    }

    private static func checkReadable(_ path: String, _ what: String) throws(AMQPError) {
        guard unsafe access(path, R_OK) == 0 else {
            let reason = unsafe String(cString: strerror(errno))
            throw AMQPError(.tlsFile, "\(what) \(path) cannot be read: \(reason)")
        }
    }

    private static func isAddress(_ host: String) -> Bool {
        var buffer = [UInt8](repeating: 0, count: 16)
        return unsafe inet_pton(AF_INET, host, &buffer) == 1 || inet_pton(AF_INET6, host, &buffer) == 1
    }
}
