public import PersistentHistory
internal import TidingsSQLite

extension TidingsConfiguration {
    // The precondition is a programmer's error: paths stand in programs, and no file or peer supplies them.
    private func value(_ path: String) -> ConfigurationValue? {
        guard let entry = entry(path) else { preconditionFailure("the configuration has no key \(path)") }
        return entry.value
    }

    /// The text of a key; nil where there is none, or the key takes something else.
    ///
    /// - Precondition: there is such a key; here and below.
    public func text(_ path: String) -> String? {
        if case .text(let text)? = value(path) { text } else { nil }
    }

    /// The whole number, or the number of bytes, of a key.
    public func integer(_ path: String) -> Int? {
        switch value(path) {
        case .integer(let number), .size(let number): number
        default: nil
        }
    }

    /// The duration of a key.
    public func duration(_ path: String) -> Duration? {
        if case .duration(let duration)? = value(path) { duration } else { nil }
    }

    /// Whether a key is true; false where there is nothing.
    public func isTrue(_ path: String) -> Bool { value(path) == .bool(true) }

    /// The list of a key.
    public func list(_ path: String) -> [String]? {
        if case .list(let elements)? = value(path) { elements } else { nil }
    }

    /// The texts of each name that a key has.
    public func pairs(_ path: String) -> [String: [String]]? {
        if case .pairs(let pairs)? = value(path) { pairs } else { nil }
    }

    /// The store's database file.
    public var store: String? { text("store") }
    /// Who writes.
    public var author: String? { text("author") }
    /// Which part of the author writes.
    public var contextName: String? { text("contextName") }
    /// Which services `tidings serve` starts.
    public var autoStart: [String] { list("autoStart") ?? [] }
    /// The least important entries that are logged.
    public var logLevel: HistoryLogLevel {
        HistoryLogLevel.allCases.first { $0.name == text("logLevel") } ?? .info
    }
    /// How long services may take to end.
    public var shutdownTimeout: Duration { duration("shutdownTimeout") ?? .zero }

    /// How to open the store: the defaults, with what is configured.
    public var storeOptions: HistoryStore.Options {
        var options = HistoryStore.Options()
        options.synchronous = text("synchronous") == "full" ? .full : .normal
        return options
    }
}
