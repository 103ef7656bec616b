/// What an agent cannot do: what, where, and the remedy. Carries no row values, message bodies or credentials.
public struct MessagingError: Error, Sendable, CustomStringConvertible {
    /// The kind of failure. Open: later versions may add kinds.
    public struct Code: Sendable, Hashable, CustomStringConvertible {
        /// The name, as it appears in messages and logs.
        public let description: String
        private init(_ name: String) { description = name }

        /// The agent runs already.
        public static let alreadyRunning = Code("alreadyRunning")
        /// A name or option that cannot be used as it is.
        public static let invalid = Code("invalid")
        /// Another process runs a consumer, relay or cleaner of this name on this store.
        public static let inUse = Code("inUse")
        /// A token file that cannot be read as one.
        public static let damagedToken = Code("damagedToken")
        /// A token file that cannot be created or written.
        public static let tokenFile = Code("tokenFile")
        /// A message that is not what its queue is for.
        public static let malformedMessage = Code("malformedMessage")
        /// A message of a version that this one does not know.
        public static let foreignVersion = Code("foreignVersion")
        /// A message that its sender may not send.
        public static let refusedMessage = Code("refusedMessage")
        /// Cleaning is blocked; the message says by whom.
        public static let cleaningBlocked = Code("cleaningBlocked")
        /// The agent was stopped before what was waited for had come.
        public static let stopped = Code("stopped")
        /// A wait has taken longer than its bound.
        public static let timedOut = Code("timedOut")
    }

    /// The kind of failure.
    public let code: Code
    /// What went wrong, where, and the remedy.
    public let message: String
    /// The error underneath, if there is one.
    public let underlyingError: (any Error)?

    /// Makes an error.
    public init(_ code: Code, _ message: String, underlyingError: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.underlyingError = underlyingError
    }

    /// True where the same call may succeed later without any repair.
    public var isRetriable: Bool { code == .timedOut || code == .inUse || code == .cleaningBlocked }

    /// True where nothing helps but a repair.
    public var isFatal: Bool { code == .damagedToken || code == .tokenFile || code == .invalid }

    /// The message behind the code.
    public var description: String { "\(code): \(message)" }
}
