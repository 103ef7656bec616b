/// What the broker, the network, or this library refused to do.
///
/// Never carries credentials or the body of a message, so that it can be logged.
public struct AMQPError: Error, Sendable, Hashable, CustomStringConvertible {
    /// What kind of fault it is. Open: later versions may add codes.
    public struct Code: RawRepresentable, Sendable, Hashable {
        /// The name of the code.
        public let rawValue: String

        /// Makes a code from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// A URL, an option, a name or a message that cannot be used as it is. Nothing was sent.
        public static let invalid = Code(rawValue: "invalid")
        /// The host's name has no address.
        public static let unknownHost = Code(rawValue: "unknownHost")
        /// Nothing listens at the address, or the network refuses the way to it.
        public static let refused = Code(rawValue: "refused")
        /// The broker did not answer within the bound.
        public static let timedOut = Code(rawValue: "timedOut")
        /// The connection ended, or was ended: by the broker, by the network, or by silence.
        public static let connectionLost = Code(rawValue: "connectionLost")
        /// A certificate or key file that cannot be read or used.
        public static let tlsFile = Code(rawValue: "tlsFile")
        /// The broker's certificate was not issued by a trusted authority, is expired, or is not valid yet.
        public static let tlsUntrusted = Code(rawValue: "tlsUntrusted")
        /// The broker's certificate is for another host.
        public static let tlsHostMismatch = Code(rawValue: "tlsHostMismatch")
        /// TLS could not be agreed on with what listens there.
        public static let tlsFailed = Code(rawValue: "tlsFailed")
        /// The broker refuses the user or the password.
        public static let authentication = Code(rawValue: "authentication")
        /// The user has no access to the virtual host, or it does not exist.
        public static let virtualHost = Code(rawValue: "virtualHost")
        /// The user lacks a permission (AMQP 403).
        public static let accessRefused = Code(rawValue: "accessRefused")
        /// A queue or exchange does not exist (AMQP 404).
        public static let notFound = Code(rawValue: "notFound")
        /// Somebody else uses the queue exclusively (AMQP 405).
        public static let resourceLocked = Code(rawValue: "resourceLocked")
        /// A queue or exchange exists with other arguments, or a delivery was settled too late (AMQP 406).
        public static let preconditionFailed = Code(rawValue: "preconditionFailed")
        /// The broker closed a channel or the connection for another reason.
        public static let closedByBroker = Code(rawValue: "closedByBroker")
        /// The broker ended the consumer: its queue was deleted.
        public static let consumerCancelled = Code(rawValue: "consumerCancelled")
        /// The connection was closed by this program, or is not running.
        public static let closed = Code(rawValue: "closed")
        /// The same connection runs already.
        public static let alreadyRunning = Code(rawValue: "alreadyRunning")
        /// The system gave no thread, descriptor or memory.
        public static let resources = Code(rawValue: "resources")
        /// The peer sent what AMQP 0-9-1 does not allow.
        public static let protocolViolation = Code(rawValue: "protocolViolation")
    }

    /// The kind of fault.
    public let code: Code
    /// What went wrong, where, and what helps.
    public let message: String
    /// The broker's reply code (AMQP 0-9-1, section 1.2 of the generated reference), where it gave one.
    public let replyCode: UInt16?
    /// The queue or exchange at fault, where the broker named one.
    public let subject: String?
    /// The argument that differs from the existing queue's or exchange's, where the broker named one.
    public let argument: String?

    /// Makes an error.
    public init(
        _ code: Code, _ message: String, replyCode: UInt16? = nil, subject: String? = nil, argument: String? = nil
    ) {
        self.code = code
        self.message = message
        self.replyCode = replyCode
        self.subject = subject
        self.argument = argument
    }

    /// True where the same may succeed later without any repair: network, time, a broker that restarts.
    public var isRetriable: Bool {
        switch code {
        case .refused, .timedOut, .connectionLost, .unknownHost, .closedByBroker, .consumerCancelled, .resourceLocked:
            true
        default: false
        }
    }

    /// True where trying again is of no use until someone changes the configuration or the broker.
    public var isFatal: Bool { !isRetriable && code != .closed && code != .alreadyRunning }

    /// One line: the message and the broker's code.
    public var description: String {
        replyCode.map { "AMQP error (\(code.rawValue), \($0)): \(message)" }
            ?? "AMQP error (\(code.rawValue)): \(message)"
    }
}
