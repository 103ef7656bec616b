import Foundation
import TidingsTestKit

/// A TCP connection to a port of 127.0.0.1, just long enough to see who answers.
struct Knock {
    /// What a client of AMQP 0-9-1 begins with.
    static let protocolHeader = Array("AMQP".utf8) + [0, 0, 9, 1]

    /// What the broker answers with the protocol's header, and then closes the connection at once.
    static let otherProtocol = "GET / HTTP/1.0\r\n\r\n"

    /// Sends bytes and returns the first bytes of the answer; fewer where it ends, or does not come within the time.
    static func answer(to bytes: [UInt8], port: Int, count: Int, seconds: Int = 10) throws -> [UInt8] {
        let socket = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        defer { close(socket) }
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
        guard send(socket, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count else { throw POSIXError(.EIO) }
        var answer = [UInt8](repeating: 0, count: count)
        let received = recv(socket, &answer, count, Int32(MSG_WAITALL))
        return Array(answer.prefix(max(received, 0)))
    }
}
