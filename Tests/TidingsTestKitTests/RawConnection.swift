import Foundation
import TidingsTestKit

/// A TCP connection to a port of 127.0.0.1, with as much of AMQP as it takes to be logged in.
final class RawConnection {
    private let socket: Int32

    /// Connects. Reading ends where nothing comes for `seconds`.
    init(port: Int, seconds: Int = 10) throws {
        socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var limit = timeval(tv_sec: seconds, tv_usec: 0)
        setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let code = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard code == 0 else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
    }

    deinit { close(socket) }

    func send(_ bytes: [UInt8]) throws {
        guard Glibc.send(socket, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count else {
            throw POSIXError(.EIO)
        }
    }

    /// The next bytes; fewer where the connection ends, or nothing comes in time.
    func receive(_ count: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let received = recv(socket, &bytes, count, Int32(MSG_WAITALL))
        return Array(bytes.prefix(max(received, 0)))
    }

    /// The payload of the next frame; empty at the end.
    func frame() -> [UInt8] {
        let head = receive(7)
        guard head.count == 7 else { return [] }
        let count = head[3...].reduce(0) { $0 << 8 | Int($1) }
        return Array(receive(count + 1).dropLast())
    }

    /// Logs in to a virtual host; returns when it is open, and throws where the broker says something else.
    static func open(_ virtualHost: TestVirtualHost) throws -> RawConnection {
        let connection = try RawConnection(port: virtualHost.broker.port)
        let login = Array("\0\(virtualHost.user)\0\(virtualHost.password)".utf8)
        let methods: [[UInt8]] = [
            // start-ok: no properties, PLAIN
            [0, 10, 0, 11] + [0, 0, 0, 0] + short("PLAIN") + [0, 0, 0, UInt8(login.count)] + login + short("en_US"),
            // tune-ok: 2047 channels, frames of 128 KiB, no heartbeats
            [0, 10, 0, 31] + [7, 255] + [0, 2, 0, 0] + [0, 0],
            // open
            [0, 10, 0, 40] + short(virtualHost.name) + [0, 0],
        ]
        try connection.send(Knock.protocolHeader)
        // Each method answers one of the broker's: start, tune, and after tune-ok none.
        for (method, expected) in zip(methods, [10, 30, nil] as [UInt8?]) {
            if let expected, connection.frame().prefix(4) != [0, 10, 0, expected] { throw POSIXError(.EPROTO) }
            try connection.send([1, 0, 0, 0, 0, 0, UInt8(method.count)] + method + [0xCE])
        }
        guard connection.frame().prefix(4) == [0, 10, 0, 41] else { throw POSIXError(.EPROTO) }
        return connection
    }

    private static func short(_ text: String) -> [UInt8] { [UInt8(text.utf8.count)] + Array(text.utf8) }
}
