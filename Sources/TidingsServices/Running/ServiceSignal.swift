internal import Glibc

/// A signal that asks a program to end.
public struct ServiceSignal: Sendable, Hashable, CustomStringConvertible {
    /// Its number.
    public let number: Int32

    /// A signal by its number. One that cannot be handled, such as SIGKILL, is refused where it is waited for.
    public init(number: Int32) { self.number = number }

    /// SIGTERM: systemd, Docker and Kubernetes stop services with it.
    public static let term = ServiceSignal(number: SIGTERM)
    /// SIGINT: Control-C.
    public static let int = ServiceSignal(number: SIGINT)
    /// SIGHUP: the terminal is gone.
    public static let hup = ServiceSignal(number: SIGHUP)

    /// The signal's name, such as `SIGTERM`.
    public var description: String {
        switch self {
        case .term: "SIGTERM"
        case .int: "SIGINT"
        case .hup: "SIGHUP"
        default: "signal \(number)"
        }
    }
}
