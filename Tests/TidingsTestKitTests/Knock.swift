import Foundation
import TidingsTestKit

/// A connection just long enough to see who answers.
enum Knock {
    /// What a client of AMQP 0-9-1 begins with.
    static let protocolHeader = Array("AMQP".utf8) + [0, 0, 9, 1]

    /// What the broker answers with the protocol's header, and then closes the connection at once.
    static let otherProtocol = "GET / HTTP/1.0\r\n\r\n"

    /// Sends bytes and returns the first bytes of the answer; fewer where it ends, or does not come within the time.
    static func answer(to bytes: [UInt8], port: Int, count: Int, seconds: Int = 10) throws -> [UInt8] {
        let connection = try RawConnection(port: port, seconds: seconds)
        try connection.send(bytes)
        return connection.receive(count)
    }
}
