internal import Glibc

/// A file descriptor, closed when the last who uses it lets go.
final class Descriptor: Sendable {
    /// Its number.
    let number: Int32

    private init(_ number: Int32) { self.number = number }

    deinit { close(number) }

    /// The two ends of a connection. No program that is started meanwhile, by whomever, inherits them; and writing to
    /// one whose other end is closed can be told not to raise a signal, as with a pipe it cannot.
    static func pair() throws -> (Descriptor, Descriptor) {
        var numbers: [Int32] = [-1, -1]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0, &numbers) == 0 else {
            throw PrivateBrokerError("cannot make sockets: \(String(cString: strerror(errno)))")
        }
        return (Descriptor(numbers[0]), Descriptor(numbers[1]))
    }
}
