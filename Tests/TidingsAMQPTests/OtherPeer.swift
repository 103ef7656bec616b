import Foundation
import TidingsTestKit

/// A port of 127.0.0.1 behind which there is no broker.
final class OtherPeer: Sendable {
    /// What it does with connections.
    enum Manners {
        /// Nobody listens.
        case refuses
        /// Connections are made, and nothing is ever said.
        case isSilent
        /// Says something when it has been spoken to, and hangs up.
        case answers([UInt8])
    }

    private let socket: LocalSocket

    var port: UInt16 { socket.port }

    init(_ manners: Manners) throws {
        socket = try LocalSocket(listens: { if case .refuses = manners { false } else { true } }())
        guard case .answers(let bytes) = manners else { return }
        socket.serve { connection in
            var buffer = [UInt8](repeating: 0, count: 4096)
            _ = recv(connection, &buffer, buffer.count, 0)
            _ = send(connection, bytes, bytes.count, Int32(MSG_NOSIGNAL))
        }
    }
}

/// A port of a loopback address, as long as it is held.
final class LocalSocket: Sendable {
    let port: UInt16
    private let number: Int32

    /// - Parameter backlog: how many connections may wait to be accepted.
    init(_ host: String = "127.0.0.1", port wanted: UInt16 = 0, listens: Bool = true, backlog: Int32 = 8) throws {
        number = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr(host)
        address.sin_port = wanted.bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let number = number
        let code = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                bind(number, pointer, size) == 0 ? getsockname(number, pointer, &size) : -1
            }
        }
        port = UInt16(bigEndian: address.sin_port)
        guard code == 0, !listens || listen(number, backlog) == 0 else {
            throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO)
        }
    }

    // Ends the thread's wait, where there is one.
    deinit {
        shutdown(number, Int32(SHUT_RDWR))
        close(number)
    }

    /// Connects to it until no more connections fit: whoever comes next waits for one to be accepted.
    func fill() -> [Int32] {
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        return (0..<4).map { _ in
            let client = socket(AF_INET, kind, 0)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = inet_addr("127.0.0.1")
            address.sin_port = port.bigEndian
            withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                    _ = connect(client, pointer, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
            return client
        }
    }

    /// Serves one connection after the other on a thread of its own, and hangs up.
    func serve(_ body: @escaping @Sendable (Int32) -> Void) {
        let number = number
        Thread.detachNewThread {
            while true {
                let connection = accept(number, nil, nil)
                guard connection >= 0 else { return }
                body(connection)
                close(connection)
            }
        }
    }
}

/// A TLS server by the `openssl` program, which agrees to what no broker agrees to any more.
final class OpenSSLServer: Sendable {
    let port: UInt16
    private let process: ChildProcess

    /// Starts it, and waits until it accepts connections.
    init(address: String = "127.0.0.1", _ identity: TestCertificates.Identity, _ arguments: [String]) async throws {
        process = try ChildProcess(
            "/usr/bin/openssl",
            ["s_server", "-accept", "\(address):0", "-cert", identity.certificate, "-key", identity.key] + arguments)
        var port: UInt16?
        for await line in process.lines where line.hasPrefix("ACCEPT") {
            port = line.split(separator: ":").last.flatMap { UInt16($0) }
            break
        }
        guard let port else { throw CocoaError(.fileReadUnknown) }
        self.port = port
    }
}
