internal import FoundationEssentials
internal import Glibc
internal import TidingsAMQP

/// Ports of the loopback interface that nobody listens on.
///
/// They lie below those that the system hands out for outgoing connections: a broker that is down must find its port
/// free when it starts again, and a client that knocks at a port of that range while nobody listens may by chance be
/// given the same port for its own end, and then talks to itself.
enum FreePort {
    /// What this process was given: between being picked and being listened on, a port looks free.
    private static let given = Locked<Set<Int>>([])

    /// Picks ports, each another.
    static func pick(_ count: Int) throws -> [Int] {
        let limit = firstOutgoingPort
        // Far too few left of them: any free one has to do.
        let candidates = limit > 13_000 ? 12_000..<limit : 0..<1
        var ports: [Int] = []
        for _ in 0..<1000 where ports.count < count {
            let candidate = Int.random(in: candidates)
            // RabbitMQ's own for its nodes, where a machine runs one.
            guard candidate != 25_672, let port = bound(candidate) else { continue }
            if given.withLock({ $0.insert(port).inserted }) { ports.append(port) }
        }
        guard ports.count == count else { throw PrivateBrokerError("no free port on 127.0.0.1") }
        return ports
    }

    /// Whether something listens on a port.
    static func isListening(_ port: Int) -> Bool {
        withSocket(port) { socket, address, length in connect(socket, address, length) == 0 } ?? false
    }

    private static var firstOutgoingPort: Int {
        let range = try? String(contentsOfFile: "/proc/sys/net/ipv4/ip_local_port_range", encoding: .utf8)
        return min(range.flatMap { $0.split(separator: "\t").first }.flatMap { Int($0) } ?? 32_768, 32_768)
    }

    /// The port that a socket can be bound to; 0 asks for any.
    private static func bound(_ port: Int) -> Int? {
        withSocket(port) { socket, address, length in
            guard bind(socket, address, length) == 0 else { return nil }
            var name = sockaddr_in()
            var size = socklen_t(MemoryLayout<sockaddr_in>.size)
            let code = withUnsafeMutablePointer(to: &name) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(socket, $0, &size) }
            }
            return code == 0 ? Int(UInt16(bigEndian: name.sin_port)) : nil
        }
    }

    private static func withSocket<Result>(
        _ port: Int, _ body: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Result?
    ) -> Result? {
        let socket = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard socket >= 0 else { return nil }
        defer { close(socket) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}
