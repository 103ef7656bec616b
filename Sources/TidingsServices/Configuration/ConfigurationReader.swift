internal import HistoryMessaging
internal import TidingsAMQP

/// Puts a configuration together from its sources, the weakest first, and collects all that is wrong with them.
struct ConfigurationReader {
    private typealias Source = TidingsConfiguration.Source
    typealias Problem = ConfigurationError.Problem

    /// Larger files are no configuration.
    private static let largestFile = 256 << 10
    private static let keys = Dictionary(uniqueKeysWithValues: ConfigurationKey.all.map { ($0.path, $0) })

    private(set) var warnings: [String] = []
    private var problems: [Problem] = []
    private var values: [String: (value: ConfigurationValue, source: TidingsConfiguration.Source)] = [:]

    // MARK: Sources

    /// Reads the file at a path.
    mutating func read(file path: String) {
        do throws(FileError) {
            read(text: try BoundedFile.text(path, limit: Self.largestFile), file: path)
            if let urlSource = values["broker.url"]?.source, case .file = urlSource { warnIfOpen(path) }
        } catch {
            add(.unreadable, nil, Shown.path(path), error.message)
        }
    }

    /// Reads the text of a file.
    mutating func read(text: String, file path: String) {
        do throws(JSON5Error) {
            guard case .object(let members) = try JSON5Reader.read(text) else {
                add(.syntax, nil, path, "expected one object in braces")
                return
            }
            var seen: Set<String> = []
            read(members, "", path, &seen)
        } catch {
            add(.syntax, nil, "\(path):\(error.line):\(error.column)", error.message)
        }
    }

    private mutating func read(
        _ members: [JSON5Value.Member], _ prefix: String, _ file: String, _ seen: inout Set<String>
    ) {
        for member in members {
            let path = prefix + member.name
            let source = Source.file(file, line: member.line)
            if let key = Self.keys[path] {
                guard seen.insert(path).inserted else {
                    add(.repeatedKey, path, "\(source)", "given twice: take one of them out")
                    continue
                }
                if member.value != .null {
                    set(key, source) { key throws(ConfigurationValue.Mistake) in try key.type.value(of: member.value) }
                }
            } else if ConfigurationKey.sections.contains(where: { $0.name == path }) {
                guard case .object(let members) = member.value else {
                    let keys = KeyNames.inside(path).joined(separator: ", ")
                    add(
                        .badValue, path, "\(source)",
                        "found \(member.value.kind), expected an object with some of the keys \(keys)")
                    continue
                }
                read(members, path + ".", file, &seen)
            } else {
                unknown(path, "\(source)")
            }
        }
    }

    /// Reads variables. One that begins like these but is none may be somebody else's, such as those that Kubernetes sets
    /// for a service called tidings: a warning, and only where it looks like one of these.
    mutating func read(environment: [String: String]) {
        for key in ConfigurationKey.all {
            guard let text = environment[key.variable], !text.isEmpty else { continue }
            set(key, .environment(key.variable)) { key throws(ConfigurationValue.Mistake) in
                try key.type.value(of: text)
            }
        }
        let known = ConfigurationKey.all.map(\.variable) + [TidingsConfiguration.fileVariable]
        let prefix = "TIDINGS_"
        // What all have in common makes none of them look like another.
        let endings = known.map { String($0.dropFirst(prefix.count)) }
        for name in environment.keys.sorted() where name.hasPrefix(prefix) && !known.contains(name) {
            guard let near = Nearest.word(to: String(name.dropFirst(prefix.count)), among: endings) else { continue }
            warnings.append(
                "\(Shown.name(name)) is not a variable of the configuration: did you mean \(prefix)\(near)?")
        }
    }

    /// Reads what the command line gives.
    mutating func read(flags: [String: String]) {
        for (path, text) in flags.sorted(by: { $0.key < $1.key }) {
            guard let key = Self.keys[path] else {
                unknown(path, "\(Source.flag)")
                continue
            }
            set(key, .flag) { key throws(ConfigurationValue.Mistake) in try key.type.value(of: text) }
        }
    }

    private mutating func set(
        _ key: ConfigurationKey, _ source: TidingsConfiguration.Source,
        _ read: (ConfigurationKey) throws(ConfigurationValue.Mistake) -> ConfigurationValue
    ) {
        do throws(ConfigurationValue.Mistake) {
            values[key.path] = (try read(key), source)
        } catch {
            add(.badValue, key.path, "\(source)", error.message)
        }
    }

    private mutating func unknown(_ path: String, _ place: String) {
        let remedy =
            if let near = KeyNames.nearest(to: path) {
                "did you mean \(near)?"
            } else {
                "there are " + KeyNames.around(path).joined(separator: ", ")
            }
        add(.unknownKey, Shown.name(path), place, "no such key: \(remedy)")
    }

    private mutating func add(_ code: ConfigurationError.Code, _ key: String?, _ place: String, _ message: String) {
        problems.append(Problem(code: code, key: key, place: place, message: message))
    }

    // MARK: The whole

    /// The configuration, if it is one.
    mutating func finish() throws(ConfigurationError) -> [TidingsConfiguration.Entry] {
        checkBroker()
        checkCleaner()
        for section in ["broker", "publisher", "consumer"] {
            checkOrder("\(section).firstRetry", "\(section).longestRetry")
        }
        guard problems.isEmpty else { throw ConfigurationError(problems: problems) }
        return ConfigurationKey.all.map { key in
            let found = values[key.path]
            return TidingsConfiguration.Entry(
                key: key, value: found?.value ?? key.defaultValue, source: found?.source ?? .default)
        }
    }

    /// The URL and its file exclude each other: a stronger source's takes the place of a weaker one's.
    private mutating func checkBroker() {
        if let url = values["broker.url"], let file = values["broker.urlFile"] {
            if url.source.rank == file.source.rank {
                add(
                    .contradiction, "broker.urlFile", "\(file.source)", "broker.url is given too: take one of them out")
                return
            }
            values[url.source.rank > file.source.rank ? "broker.urlFile" : "broker.url"] = nil
        }
        if let url = values["broker.url"] { checkUser(url.value.text, url.source) }
        if let file = values["broker.urlFile"] {
            let path = file.value.text
            do {
                let urls = try BrokerURLFile.read(path)
                _ = try ConfigurationType.brokerURL.value(of: urls)
                checkUser(urls, file.source)
                warnIfOpen(path)
            } catch {
                let message = (error as? FileError)?.message ?? (error as? ConfigurationValue.Mistake)?.message ?? ""
                add(.badValue, "broker.urlFile", "\(file.source)", "\(Shown.path(path)): \(message)")
            }
        }
        if let heartbeat = values["broker.heartbeat"], case .duration(let duration) = heartbeat.value,
            duration > .zero, duration < .seconds(1)
        {
            add(
                .badValue, "broker.heartbeat", "\(heartbeat.source)",
                "found \(heartbeat.value.text), expected 0s or at least 1s")
        }
    }

    /// The broker must see one user, whichever host it is.
    private mutating func checkUser(_ urls: String, _ source: Source) {
        let user = values["broker.user"]
        do throws(AMQPError) {
            _ = try Broker(urls: urls, user: user?.value.text)
        } catch {
            add(.contradiction, "broker.user", "\(user?.source ?? source)", error.message)
        }
    }

    private mutating func checkCleaner() {
        guard let strategy = values["cleaner.strategy"] else { return }
        for (name, path) in [("duration", "cleaner.interval"), ("acknowledgements", "cleaner.count")]
        where strategy.value == .text(name) && values[path] == nil {
            // One that was given and is wrong has its own line already.
            guard !problems.contains(where: { $0.key == path }) else { continue }
            add(.contradiction, path, "\(strategy.source)", "the strategy \(name) needs it: give one")
        }
    }

    private mutating func checkOrder(_ first: String, _ longest: String) {
        guard case .duration(let low)? = values[first]?.value ?? Self.keys[first]?.defaultValue,
            case .duration(let high)? = values[longest]?.value ?? Self.keys[longest]?.defaultValue, low > high
        else { return }
        let place = values[longest]?.source ?? values[first]?.source ?? .default
        add(
            .contradiction, longest, "\(place)",
            "found \(DurationText.text(high)), expected at least the \(DurationText.text(low)) of \(first)")
    }

    private mutating func warnIfOpen(_ path: String) {
        // Where container runtimes mount secrets: readable for all in the container, which is theirs to decide.
        let isMounted = path.hasPrefix("/run/secrets/") || path.hasPrefix("/var/run/secrets/")
        guard !isMounted, BoundedFile.isOpenToOthers(path) else { return }
        warnings.append(
            "\(Shown.path(path)) holds a password, and every user may read it: `chmod o= \(Shown.path(path))`")
    }
}

extension TidingsConfiguration.Source {
    /// The stronger, the larger.
    var rank: Int {
        switch self {
        case .default: 0
        case .file: 1
        case .environment: 2
        case .flag: 3
        }
    }
}
