internal import CTidingsRabbitMQ
internal import Glibc

/// The way to a connection that has logged in: name, socket, TLS, login. Within one bound.
struct ConnectionOpening: Sendable {
    let endpoint: AMQPEndpoint
    let configuration: AMQPConfiguration
    let deadline: ContinuousClock.Instant
    let watchdog: SocketWatchdog
    /// Told of the socket as soon as there is one, so that it can be shut down meanwhile.
    let onSocket: @Sendable (GuardedSocket) -> Void

    /// Opens the connection on a thread that may block. Every failure tells what, where and what helps.
    ///
    /// The library ties a connection to no thread, as long as one at a time uses it: here it is handed over.
    func open(_ handOver: ConnectionHandOver) async throws(AMQPError) -> sending ConnectionHandle {
        await withCheckedContinuation { continuation in
            handOver.begin(continuation)
            do throws(AMQPError) {
                try SystemThread("amqp-opening") { handOver.finish(self.opened()) }.detach()
            } catch {
                handOver.finish(.failure(error))
            }
        }
        return try handOver.take().get()
    }

    private func opened() -> sending Result<ConnectionHandle, AMQPError> {
        do throws(AMQPError) {
            return .success(try openBlocking())
        } catch {
            return .failure(error)
        }
    }

    private func openBlocking() throws(AMQPError) -> sending ConnectionHandle {
        let addresses = try Resolver.addresses(of: endpoint.host, before: deadline)
        // TLS needs the name itself: the library compares the certificate with what it connects to.
        return try open(endpoint.tls == nil ? addresses : [endpoint.host])
    }

    /// Tries one address after the other, each for its share of the time.
    func open(_ hosts: [String]) throws(AMQPError) -> sending ConnectionHandle {
        var failure = AMQPError(.unknownHost, "the host '\(endpoint.host)' has no address")
        for (index, host) in hosts.enumerated() {
            // An address that does not answer leaves time for the others.
            let share = max(.milliseconds(1), deadline - .now) / (hosts.count - index)
            do throws(AMQPError) {
                return try open(host, before: .now + share)
            } catch {
                failure = error
                if error.code != .refused && error.code != .timedOut { break }
            }
        }
        throw failure
    }

    private func open(_ host: String, before deadline: ContinuousClock.Instant) throws(AMQPError)
        -> sending ConnectionHandle
    {
        guard let state = unsafe amqp_new_connection() else {
            throw AMQPError(.resources, "no memory for a connection")
        }
        do throws(AMQPError) {
            let guarded = try unsafe connect(state, to: host, before: deadline)
            do throws(AMQPError) {
                try unsafe logIn(state, before: deadline)
            } catch {
                // Before the descriptor is closed.
                guarded.end()
                // The library takes a socket that was shut down for one that the peer closed.
                throw guarded.hasBarked ? silence : error
            }
            guarded.set(deadline: nil)
            return unsafe ConnectionHandle(state, guarded: guarded)
        } catch {
            unsafe amqp_destroy_connection(state)
            throw error
        }
    }

    private func connect(
        _ state: amqp_connection_state_t, to host: String, before deadline: ContinuousClock.Instant
    ) throws(AMQPError) -> GuardedSocket {
        let socket: OpaquePointer?
        if let tls = endpoint.tls {
            unsafe socket = amqp_ssl_socket_new(state)
            guard let socket = unsafe socket else { throw AMQPError(.resources, "no memory for TLS") }
            try unsafe TLSSetup(options: tls, host: host).apply(to: socket)
        } else {
            unsafe socket = amqp_tcp_socket_new(state)
        }
        guard let socket = unsafe socket else { throw AMQPError(.resources, "no memory for a socket") }
        var bound = Self.remaining(until: deadline)
        let status = unsafe amqp_socket_open_noblock(socket, host, Int32(endpoint.port), &bound)
        guard status == AMQP_STATUS_OK.rawValue else { throw socketError(status) }
        let guarded = watchdog.guardSocket(unsafe amqp_get_sockfd(state))
        guarded.set(deadline: deadline)
        onSocket(guarded)
        _ = unsafe fcntl(amqp_get_sockfd(state), F_SETFD, FD_CLOEXEC)
        return guarded
    }

    private static func remaining(until deadline: ContinuousClock.Instant) -> timeval {
        let milliseconds = Int(max(.milliseconds(1), deadline - .now) / .milliseconds(1))
        return timeval(tv_sec: milliseconds / 1000, tv_usec: milliseconds % 1000 * 1000)
    }

    private func logIn(
        _ state: amqp_connection_state_t, before deadline: ContinuousClock.Instant
    ) throws(AMQPError) {
        var bound = Self.remaining(until: deadline)
        _ = unsafe amqp_set_handshake_timeout(state, &bound)
        let arena = Arena()
        var properties = unsafe arena.table(clientProperties)
        // Zero turns heartbeats off: a part of a second is one second.
        let interval = endpoint.heartbeat ?? configuration.heartbeat
        let heartbeat = interval > .zero ? Int32(clamping: max(1, min(interval.components.seconds, 65_535))) : 0
        let reply =
            switch endpoint.credentials {
            case .plain(let user, let password):
                unsafe tidings_amqp_login_plain(
                    state, endpoint.virtualHost, 0, 131_072, heartbeat, &properties, user, password)
            case .external:
                // The broker takes the name from the certificate, whatever is said here; but of an empty text the library
                // takes the length of zero for a lack of memory.
                unsafe tidings_amqp_login_external(
                    state, endpoint.virtualHost, 0, 131_072, heartbeat, &properties, "certificate")
            }
        guard unsafe reply.reply_type != AMQP_RESPONSE_NORMAL else { return }
        throw unsafe loginError(reply)
    }

    /// Without `consumer_cancel_notify` a consumer whose queue is deleted would wait for ever; without
    /// `connection.blocked` an alarm could only be guessed.
    private var clientProperties: AMQPTable {
        [
            "product": "Tidings", "platform": "Swift", "connection_name": .string(configuration.name),
            "capabilities": .table([
                "connection.blocked": true, "consumer_cancel_notify": true, "publisher_confirms": true,
                "basic.nack": true, "authentication_failure_close": true, "exchange_exchange_bindings": true,
            ]),
        ]
    }

    private func socketError(_ status: Int32) -> AMQPError {
        switch status {
        case AMQP_STATUS_TIMEOUT.rawValue:
            return AMQPError(
                .timedOut,
                "\(endpoint) did not answer within \(configuration.connectTimeout(of: endpoint)): check host, port and firewall"
            )
        case AMQP_STATUS_HOSTNAME_RESOLUTION_FAILED.rawValue:
            return AMQPError(
                .unknownHost, "the host '\(endpoint.host)' has no address: check the name in the broker URL")
        case AMQP_STATUS_SSL_HOSTNAME_VERIFY_FAILED.rawValue: return otherHost
        case AMQP_STATUS_SSL_PEER_VERIFY_FAILED.rawValue: return refusedCertificate
        case AMQP_STATUS_SSL_CONNECTION_FAILED.rawValue, AMQP_STATUS_SSL_ERROR.rawValue:
            return failedTLS
        default:
            return AMQPError(
                .refused, "nothing accepts connections at \(endpoint): check that the broker runs there, and the port")
        }
    }

    private var silence: AMQPError {
        AMQPError(
            .timedOut,
            "\(endpoint) accepted the connection and did not answer: check that it is a broker, and its health")
    }

    private var failedTLS: AMQPError {
        AMQPError(
            .tlsFailed,
            "no TLS with \(endpoint): check that the port speaks TLS 1.2 or later, and which client certificate it wants"
        )
    }

    private var otherHost: AMQPError {
        AMQPError(
            .tlsHostMismatch,
            "the certificate of \(endpoint) is for another host: connect by a name that it holds, or renew it with this one"
        )
    }

    private var refusedCertificate: AMQPError {
        let refusal = TLSLibrary.takeRefusal()
        let words = refusal.map { ": \($0.text)" } ?? ""
        switch refusal?.code {
        // X509_V_ERR_HOSTNAME_MISMATCH and _IP_ADDRESS_MISMATCH.
        case 62, 64:
            return otherHost
        // X509_V_ERR_CERT_NOT_YET_VALID and _HAS_EXPIRED.
        case 9, 10:
            return AMQPError(
                .tlsUntrusted, "the certificate of \(endpoint) is not valid today\(words): renew it, or set the clock")
        default:
            return AMQPError(
                .tlsUntrusted,
                "the certificate of \(endpoint) was not issued by a trusted authority\(words): name its CA (cacertfile)"
            )
        }
    }

    /// The broker's list of ways to log in has not the one that is wanted.
    private var notOffered: AMQPError {
        let what =
            endpoint.credentials == .external
            ? "by certificate: enable its plugin rabbitmq_auth_mechanism_ssl and auth_mechanisms EXTERNAL, or use a password"
            : "with a password: add PLAIN to its auth_mechanisms, or use a certificate (auth_mechanism=external)"
        return AMQPError(.authentication, "\(endpoint) does not offer to log in \(what)")
    }

    private func loginError(_ reply: amqp_rpc_reply_t) -> AMQPError {
        var recent = RecentTexts()
        if unsafe reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION,
            case .connectionClosed(let close) = unsafe IncomingMethod(reply.reply, &recent)
        {
            return LoginRefusal(close: close, endpoint: endpoint).error
        }
        switch unsafe reply.library_error {
        case AMQP_STATUS_TIMEOUT.rawValue:
            return silence
        case AMQP_STATUS_CONNECTION_CLOSED.rawValue, AMQP_STATUS_SOCKET_ERROR.rawValue:
            return AMQPError(
                .connectionLost,
                "\(endpoint) ended the connection during login: check that the port speaks AMQP 0-9-1"
                    + (endpoint.tls == nil ? " without TLS (amqps:// is with TLS)" : "") + ", and the broker's log")
        // With TLS 1.3 the peer looks at the client's certificate when the handshake is over for the client.
        case AMQP_STATUS_SSL_ERROR.rawValue: return failedTLS
        case AMQP_STATUS_BROKER_UNSUPPORTED_SASL_METHOD.rawValue: return notOffered
        case let code:
            return AMQPError(
                .protocolViolation,
                "\(endpoint) does not speak AMQP 0-9-1 (\(LibraryStatus(code).text)): check host and port")
        }
    }
}

/// What the broker says to a login that it refuses.
private struct LoginRefusal {
    let close: BrokerClose
    let endpoint: AMQPEndpoint

    var error: AMQPError {
        switch close.code {
        case 403:
            let what =
                endpoint.credentials == .external
                ? "that the certificate's name is a user's, and that the broker takes names from certificates (ssl_cert_login_from)"
                : "name and password (guest may connect from the broker's own host only)"
            return AMQPError(
                .authentication, "\(endpoint) refuses \(endpoint.credentials): check \(what)", replyCode: close.code)
        case 530 where close.text.contains(" limit "):
            return AMQPError(
                .closedByBroker,
                "\(endpoint) takes no more connections: \(close.text): close some, or raise the limit "
                    + "(rabbitmqctl set_vhost_limits, set_user_limits)", replyCode: close.code)
        case 530:
            let why =
                close.text.contains("not found")
                ? "does not exist: create it (rabbitmqctl add_vhost), or correct the URL"
                : "is closed to \(endpoint.credentials): give permissions (rabbitmqctl set_permissions -p), or correct the URL"
            return AMQPError(
                .virtualHost, "the virtual host '\(endpoint.virtualHost)' at \(endpoint.host):\(endpoint.port) \(why)",
                replyCode: close.code)
        default:
            return AMQPError(
                .closedByBroker, "\(endpoint) refuses the connection: \(close.text)", replyCode: close.code)
        }
    }
}
