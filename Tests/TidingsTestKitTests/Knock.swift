import Foundation
import TidingsTestKit

/// A TCP connection to a port of 127.0.0.1, just long enough to see who answers.
struct Knock {
    /// What a client of AMQP 0-9-1 begins with.
    static let protocolHeader = Array("AMQP".utf8) + [0, 0, 9, 1]

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

/// What a user may do.
enum Permissions {
    /// The virtual host, and the patterns to configure, write and read, for each of a user's permissions.
    static func of(_ user: String, on broker: PrivateBroker) async throws -> [[String]] {
        let text = try await broker.evaluate(
            """
            Keys = [vhost, configure, write, read],
            [base64:encode(iolist_to_binary(lists:join(0, [proplists:get_value(K, P) || K <- Keys])))
                || P <- rabbit_auth_backend_internal:list_user_permissions(\(PrivateBroker.binary(user)))]
            """)
        return text.split(separator: "\"").compactMap { Data(base64Encoded: String($0)) }.map { data in
            data.split(separator: 0, omittingEmptySubsequences: false).map { String(decoding: $0, as: UTF8.self) }
        }
    }
}

/// What a private broker has left on the machine.
enum Guarded {
    /// The processes whose environment names the directory, or one that it lies in.
    static func processes(of directory: String) throws -> [Int32] {
        let root = directory.split(separator: "/").first { $0.hasPrefix("tidings-") }.map(String.init) ?? directory
        return try FileManager.default.contentsOfDirectory(atPath: "/proc").compactMap { Int32($0) }.filter { process in
            guard let environment = FileManager.default.contents(atPath: "/proc/\(process)/environ") else {
                return false
            }
            return String(decoding: environment, as: UTF8.self).contains(root)
        }
    }
}
