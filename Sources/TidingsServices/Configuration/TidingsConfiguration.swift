internal import FoundationEssentials
internal import TidingsAMQP

/// What services are told before they start: one JSON5 file, the environment over it, flags over both.
///
/// ```swift
/// let configuration = try TidingsConfiguration(file: "/etc/tidings.json5")
/// let logger = StandardErrorLogger(level: configuration.logLevel)
/// let broker = try configuration.broker()
/// ```
///
/// ``ConfigurationKey/all`` lists the keys. Every value knows where it came from; all mistakes are reported at once, and
/// neither they nor a description of this value shows a credential.
public struct TidingsConfiguration: Sendable, CustomReflectable {
    /// Where a value came from.
    public enum Source: Sendable, Hashable, CustomStringConvertible {
        /// Nobody has given one.
        case `default`
        /// A line of the file.
        case file(String, line: Int)
        /// The environment variable of this name.
        case environment(String)
        /// The command line.
        case flag

        /// The source, as messages show it.
        public var description: String {
            switch self {
            case .default: "default"
            case .file(let path, let line): "\(path):\(line)"
            case .environment(let name): name
            case .flag: "command line"
            }
        }
    }

    /// A key, what holds for it, and who said so.
    public struct Entry: Sendable, CustomStringConvertible, CustomReflectable {
        /// The key.
        public let key: ConfigurationKey
        /// What holds; nil is nothing.
        public let value: ConfigurationValue?
        /// Who said so.
        public let source: Source

        /// The value, fit to be shown: where it holds a credential, what can be told without.
        public var shown: String? {
            guard let value, key.type.isSecret else { return value?.text }
            let configuration = try? AMQPConfiguration(urls: value.text, name: "")
            return configuration?.endpoints.map(\.description).joined(separator: ", ") ?? "(not shown)"
        }

        /// Path, value and source.
        public var description: String { "\(key.path): \(shown ?? "null") (\(source))" }

        /// Shows no credential, to debuggers and `dump` either.
        public var customMirror: Mirror { Mirror(self, children: ["entry": description]) }
    }

    /// The environment variable that names the file where nothing else does.
    public static let fileVariable = "TIDINGS_CONFIG"

    /// The file that was read; nil where there was none.
    public let file: String?
    /// All keys with what holds for them, in the order of ``ConfigurationKey/all``.
    public let entries: [Entry]
    /// What is no mistake but may be none of the intended: variables that look like one of these, permissions.
    public let warnings: [String]

    private let places: [String: Int]

    /// Reads a configuration.
    ///
    /// - Parameters:
    ///   - file: the path of the JSON5 file; nil is the one that `TIDINGS_CONFIG` names, or none.
    ///   - environment: nil is the process's. An empty variable counts as none.
    ///   - flags: texts by the paths of keys; lists have commas.
    /// - Throws: ``ConfigurationError`` with all mistakes.
    public init(
        file: String? = nil, environment: [String: String]? = nil, flags: [String: String] = [:]
    ) throws(ConfigurationError) {
        let environment = environment ?? ProcessInfo.processInfo.environment
        let file = file ?? environment[Self.fileVariable].flatMap { $0.isEmpty ? nil : $0 }
        var reader = ConfigurationReader()
        if let file { reader.read(file: file) }
        reader.read(environment: environment)
        reader.read(flags: flags)
        try self.init(file: file, reader.finish(), warnings: reader.warnings)
    }

    /// Takes what was read.
    init(file: String?, _ entries: [Entry], warnings: [String]) {
        self.file = file
        self.entries = entries
        self.warnings = warnings
        places = Dictionary(uniqueKeysWithValues: entries.enumerated().map { ($1.key.path, $0) })
    }

    /// A key with what holds for it; nil where there is no such key.
    public func entry(_ path: String) -> Entry? { places[path].map { entries[$0] } }

    /// Shows no credential, to debuggers and `dump` either.
    public var customMirror: Mirror { Mirror(self, children: ["entries": entries]) }
}
