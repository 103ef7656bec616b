import HistoryMessaging
import PersistentHistory
import TidingsServices

/// What a subcommand that works with a store, and perhaps a broker, is told: by a file, the environment, and flags over both.
struct ServiceOptions: Sendable {
    /// One key, over the environment and the file.
    static let keyOption = Option.value("--set", "KEY=VALUE", "one key of the configuration", isRepeatable: true)

    /// For a subcommand that works with a store alone.
    static let storeOptions: [Option] = [
        .value(
            "--config", "FILE",
            "a configuration; without it the file that \(TidingsConfiguration.fileVariable) names"),
        keyOption,
    ]

    /// For a subcommand that may need a broker as well.
    static let options: [Option] = storeOptions + BrokerOption.options

    /// For the help of a subcommand with these options.
    static let details = """
        `tidings config check` tells which keys there are and what holds for them: --set goes before the environment \
        (\(BrokerOption.variable) and others), and that before the file.
        """

    let configuration: TidingsConfiguration
    private let operand: String?

    /// Reads the configuration. `flags` are what the subcommand's own options set, by the path of the key.
    init(_ arguments: Arguments, flags: [String: String?] = [:]) throws {
        var texts = try Self.keys(arguments, over: flags.compactMapValues(\.self))
        for (option, key) in [("--broker-file", "broker.urlFile"), ("--broker", "broker.url")]
        where arguments.takes(option) {
            guard let value = arguments.string(option) else { continue }
            guard texts[key] == nil else { throw UsageError("\(option) and --set \(key)=… exclude each other") }
            texts[key] = value
        }
        configuration = try TidingsConfiguration(file: arguments.string("--config"), flags: texts)
        operand = arguments.database
        for warning in configuration.warnings { Output.error("tidings: \(warning)") }
    }

    /// What `--set` gives, by the path of the key. `flags` are what other options set; a key is given once.
    static func keys(_ arguments: Arguments, over flags: [String: String] = [:]) throws(UsageError) -> [String: String]
    {
        var texts = flags
        for pair in arguments.strings("--set") ?? [] {
            guard let equals = pair.firstIndex(of: "="), equals != pair.startIndex else {
                throw UsageError("--set expects KEY=VALUE, such as logLevel=debug")
            }
            let key = String(pair[..<equals])
            guard texts[key] == nil else { throw UsageError("\(key) is given twice") }
            texts[key] = String(pair[pair.index(after: equals)...])
        }
        return texts
    }

    /// The store's file, for a subcommand that only reads: where it is named there is nothing that a configuration could
    /// add, and one that is wrong does not matter.
    static func readingPath(_ arguments: Arguments) throws -> String {
        if let path = arguments.database, !arguments.has("--config"), !arguments.has("--set") { return path }
        return try ServiceOptions(arguments).path()
    }

    /// Lends the store to write to, as it is configured; without an author as Tidings itself.
    func writing<R>(author: String? = nil, _ body: (HistoryStore) async throws -> R) async throws -> R {
        try await Stores.writing(try path(), author: author, options: configuration.storeOptions, body)
    }

    /// The store's file: the operand, or the configured one.
    func path() throws -> String {
        guard let path = operand ?? configuration.store else {
            throw UsageError("DB is missing: name the store's database file, or set the key store of the configuration")
        }
        return path
    }

    /// The broker, whose connections have the subcommand's name in the broker's log.
    func broker(_ subcommand: String) throws -> Broker { try configuration.broker(name: "tidings \(subcommand)") }

    /// The broker, where there must be one.
    func requiredBroker(_ subcommand: String) throws -> Broker {
        let broker = try broker(subcommand)
        guard broker.configuration != nil else {
            throw UsageError(
                "name the broker: by --broker-file FILE, or by \(BrokerOption.variable) in the environment")
        }
        return broker
    }

    /// Where agents write what happens to them: standard error.
    var logger: StandardErrorLogger { StandardErrorLogger(level: configuration.logLevel) }

    /// The logger of what is done once: only what went wrong, unless a level is configured.
    var quietLogger: StandardErrorLogger {
        let isDefault = configuration.entry("logLevel")?.source == .default
        return StandardErrorLogger(level: isDefault ? .warning : configuration.logLevel)
    }
}
