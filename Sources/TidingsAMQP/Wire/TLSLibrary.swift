internal import CTidingsRabbitMQ
internal import Glibc

/// What librabbitmq does not offer of the TLS library that it is linked to: looked up at run time.
///
/// Where a function is not there (another TLS library, another version), the feature falls back to librabbitmq's own.
@safe enum TLSLibrary {
    private typealias VerifyCallback = @convention(c) (Int32, OpaquePointer?) -> Int32

    /// The last reason for which a certificate was refused, by thread: the callback is given no context.
    private static let refusals = Locked<[UInt: Int32]>([:])

    /// Trusts the system's authorities. False where that cannot be done.
    ///
    /// [SSL_CTX_set_default_verify_paths](https://docs.openssl.org/3.0/man3/SSL_CTX_load_verify_locations/)
    static func trustSystem(_ socket: OpaquePointer) -> Bool {
        typealias Function = @convention(c) (UnsafeMutableRawPointer?) -> Int32
        guard let function = unsafe lookUp("SSL_CTX_set_default_verify_paths", as: Function.self) else { return false }
        return unsafe function(amqp_ssl_socket_get_context(socket)) == 1
    }

    /// Has the TLS library itself compare the certificate with an IP address: librabbitmq 0.11 looks at DNS names only.
    /// False where that cannot be done.
    ///
    /// [X509_VERIFY_PARAM_set1_ip_asc](https://docs.openssl.org/3.0/man3/X509_VERIFY_PARAM_set_flags/)
    static func expect(address: String, of socket: OpaquePointer) -> Bool {
        typealias Parameters = @convention(c) (UnsafeMutableRawPointer?) -> OpaquePointer?
        typealias SetAddress = @convention(c) (OpaquePointer?, UnsafePointer<CChar>?) -> Int32
        guard let parameters = unsafe lookUp("SSL_CTX_get0_param", as: Parameters.self),
            let setAddress = unsafe lookUp("X509_VERIFY_PARAM_set1_ip_asc", as: SetAddress.self)
        else { return false }
        return unsafe setAddress(parameters(amqp_ssl_socket_get_context(socket)), address) == 1
    }

    /// Notes why a certificate is refused, for ``takeRefusal()`` on the same thread.
    ///
    /// The callback changes nothing: what it is told, it returns.
    /// [SSL_CTX_set_verify](https://docs.openssl.org/3.0/man3/SSL_CTX_set_verify/)
    static func noteRefusals(of socket: OpaquePointer) {
        typealias SetVerify = @convention(c) (UnsafeMutableRawPointer?, Int32, VerifyCallback?) -> Void
        guard let setVerify = unsafe lookUp("SSL_CTX_set_verify", as: SetVerify.self) else { return }
        _ = takeRefusal()
        // SSL_VERIFY_NONE: the handshake goes on, and librabbitmq refuses after it.
        unsafe setVerify(amqp_ssl_socket_get_context(socket), 0) { accepted, context in
            guard accepted == 0 else { return accepted }
            typealias GetError = @convention(c) (OpaquePointer?) -> Int32
            if let getError = unsafe TLSLibrary.lookUp("X509_STORE_CTX_get_error", as: GetError.self) {
                let code = unsafe getError(context)
                TLSLibrary.refusals.withLock { $0[UInt(pthread_self())] = code }
            }
            return accepted
        }
    }

    /// Why the last certificate on this thread was refused: the TLS library's code and words.
    static func takeRefusal() -> (code: Int32, text: String)? {
        guard let code = refusals.withLock({ $0.removeValue(forKey: UInt(pthread_self())) }) else { return nil }
        typealias Words = @convention(c) (Int) -> UnsafePointer<CChar>?
        let words = unsafe lookUp("X509_verify_cert_error_string", as: Words.self).flatMap { unsafe $0(Int(code)) }
        return (code, unsafe words.map { unsafe String(cString: $0) } ?? "code \(code)")
    }

    private static func lookUp<Function>(_ name: String, as _: Function.Type) -> Function? {
        // RTLD_DEFAULT, a macro with a cast: whatever is loaded.
        guard let symbol = unsafe dlsym(nil, name) else { return nil }
        return unsafe unsafeBitCast(symbol, to: Function.self)
    }
}
