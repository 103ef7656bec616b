internal import CTidingsRabbitMQ
internal import Dispatch
internal import Glibc

/// Looks up the addresses of a host within a bound: getaddrinfo(3) has none of its own.
enum Resolver {
    /// The addresses of a host as text, in the order in which they are to be tried. Blocks the thread.
    ///
    /// Throws `unknownHost` where there are none, `timedOut` where nothing is known by the deadline: the lookup then
    /// ends in its own time, on a thread of its own.
    static func addresses(of host: String, before deadline: ContinuousClock.Instant) throws(AMQPError) -> [String] {
        let lookup = Lookup()
        try SystemThread("amqp-lookup") { lookup.finish(Self.lookUp(host)) }.detach()
        let remaining = max(.zero, deadline - .now) / .milliseconds(1)
        guard lookup.done.wait(timeout: .now() + .milliseconds(Int(remaining))) == .success else {
            throw AMQPError(
                .timedOut, "the name '\(host)' was not looked up in time: check the resolver (/etc/resolv.conf)")
        }
        switch lookup.result {
        case .success(let addresses): return addresses
        case .failure(let error): throw error
        }
    }

    private static func lookUp(_ host: String) -> Result<[String], AMQPError> {
        var hints = unsafe addrinfo()
        unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        let code = unsafe getaddrinfo(host, nil, &hints, &list)
        defer { if let list = unsafe list { unsafe freeaddrinfo(list) } }
        guard code == 0 else {
            let reason = unsafe String(cString: gai_strerror(code))
            return .failure(
                AMQPError(
                    .unknownHost, "the host '\(host)' has no address (\(reason)): check the name in the broker URL"))
        }
        var addresses: [String] = []
        var next = unsafe list
        while let info = unsafe next {
            var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
            let status = unsafe getnameinfo(
                info.pointee.ai_addr, info.pointee.ai_addrlen, &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST)
            if status == 0 {
                let bytes = text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
                addresses.append(String(decoding: bytes, as: UTF8.self))
            }
            unsafe next = info.pointee.ai_next
        }
        return .success(addresses)
    }
}

/// A lookup that may end after nobody waits for it any more.
private final class Lookup: Sendable {
    let done = DispatchSemaphore(value: 0)
    private let state = Locked<Result<[String], AMQPError>>(.success([]))

    var result: Result<[String], AMQPError> { state.withLock { $0 } }

    func finish(_ result: Result<[String], AMQPError>) {
        state.withLock { $0 = result }
        done.signal()
    }
}
