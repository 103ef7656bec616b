/// A configuration cannot be used: all that is wrong with it.
public struct ConfigurationError: Error, Sendable, CustomStringConvertible {
    /// The kind of failure. Open: later versions may add kinds.
    public struct Code: Sendable, Hashable, CustomStringConvertible {
        /// The name, as it appears in messages and logs.
        public let description: String
        private init(_ name: String) { description = name }

        /// A file that cannot be read.
        public static let unreadable = Code("unreadable")
        /// A text that is not JSON5.
        public static let syntax = Code("syntax")
        /// A key that there is not.
        public static let unknownKey = Code("unknownKey")
        /// A key that the same source gives twice.
        public static let repeatedKey = Code("repeatedKey")
        /// A value that the key does not take.
        public static let badValue = Code("badValue")
        /// Values that do not go together.
        public static let contradiction = Code("contradiction")
    }

    /// One mistake.
    public struct Problem: Sendable, Hashable, CustomStringConvertible {
        /// The kind of mistake.
        public let code: Code
        /// The path of the key; nil where it is about the whole file.
        public let key: String?
        /// Where the mistake stands: a file with its line, a variable, the command line.
        public let place: String
        /// What was found, what is allowed, and the remedy. Holds no credential.
        public let message: String

        /// All in one line.
        public var description: String {
            ([place, key, message] as [String?]).compactMap(\.self).joined(separator: ": ")
        }
    }

    /// The kind of the first mistake.
    public var code: Code { problems.first?.code ?? .badValue }
    /// All mistakes: the file's in their order, then the environment's, then the flags'. Never empty.
    public let problems: [Problem]
    /// One line for each mistake.
    public var message: String { problems.map(\.description).joined(separator: "\n") }
    /// False: the configuration must be changed.
    public var isRetriable: Bool { false }
    /// True: nothing helps but a repair.
    public var isFatal: Bool { true }
    /// One line for each mistake.
    public var description: String { message }
}
