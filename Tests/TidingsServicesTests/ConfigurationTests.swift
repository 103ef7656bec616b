import Glibc
import HistoryMessaging
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsTestKit

@testable import TidingsServices

@Suite("Configuration")
struct ConfigurationTests {
    @Test("nothing given: every key has its default, and says so")
    func defaults() throws {
        let configuration = try TidingsConfiguration(environment: [:])
        #expect(configuration.file == nil && configuration.warnings.isEmpty)
        #expect(configuration.entries.map(\.key) == ConfigurationKey.all)
        for entry in configuration.entries {
            #expect(entry.value == entry.key.defaultValue && entry.source == .default, "\(entry)")
        }
        #expect(configuration.store == nil && configuration.author == nil && configuration.contextName == nil)
        #expect(configuration.autoStart == ["relay", "cleaner"] && configuration.logLevel == .info)
        #expect(
            configuration.shutdownTimeout == .seconds(8)
                && configuration.storeOptions.synchronous == HistoryStore.Options().synchronous)
        #expect(configuration.list("consumer.authors") == nil && configuration.list("cleaner.requiredAuthors") == [])
        #expect(
            configuration.integer("publisher.messageLimit") == 262_144 && configuration.integer("cleaner.count") == nil)
        #expect(!configuration.isTrue("publisher.relays") && configuration.entry("nope") == nil)
    }

    @Test(
        "the table is sound: paths and variables are unique, defaults are what their keys take",
        arguments: ConfigurationKey.all)
    func table(key: ConfigurationKey) throws {
        #expect(ConfigurationKey.all.filter { $0.path == key.path || $0.variable == key.variable } == [key])
        #expect(key.meaning.hasSuffix(".") && !key.meaning.contains("\n") && !key.meaning.contains("|"))
        #expect(key.section == nil || ConfigurationKey.sections.contains { $0.name == key.section })
        guard let value = key.defaultValue else { return }
        let json = try JSON5Reader.read(key.defaultText)
        #expect(try key.type.value(of: json) == value)
        #expect(try value.text.isEmpty || key.type.value(of: value.text) == value)
    }

    @Test("variables have the names one expects")
    func variables() {
        let names = Dictionary(uniqueKeysWithValues: ConfigurationKey.all.map { ($0.path, $0.variable) })
        #expect(names["broker.url"] == "TIDINGS_AMQP_URL" && names["broker.urlFile"] == "TIDINGS_AMQP_URL_FILE")
        #expect(names["prefix"] == "TIDINGS_PREFIX" && names["storeName"] == "TIDINGS_STORE_NAME")
        #expect(names["consumer.pollIntervalWithoutBroker"] == "TIDINGS_CONSUMER_POLL_INTERVAL_WITHOUT_BROKER")
        #expect(names["store"] == "TIDINGS_STORE" && names["logLevel"] == "TIDINGS_LOG_LEVEL")
    }

    @Test("a file, with comments and trailing commas, flat or nested")
    func file() throws {
        let configuration = try TidingsConfiguration(
            text: """
                // services of the shop
                {
                  store: "/data/main.db", author: 'orders',
                  "consumer.name": "orders-1", /* flat */
                  consumer: { pollInterval: "250ms", authors: [], excludingAuthors: ["a b", "c"], pageSize: 7, },
                  publisher: { messageLimit: "64KiB", relays: true },
                  cleaner: { users: { "orders-1": "o" }, commandUsers: { clean: ["ops", "o"], evict: [] } },
                  shutdownTimeout: null,
                  logLevel: "trace", synchronous: "full",
                }
                """)
        #expect(configuration.store == "/data/main.db" && configuration.author == "orders")
        #expect(configuration.text("consumer.name") == "orders-1")
        #expect(configuration.duration("consumer.pollInterval") == .milliseconds(250))
        #expect(configuration.list("consumer.authors") == [])
        #expect(configuration.list("consumer.excludingAuthors") == ["a b", "c"])
        #expect(configuration.integer("consumer.pageSize") == 7 && configuration.isTrue("publisher.relays"))
        #expect(configuration.integer("publisher.messageLimit") == 65_536 && configuration.logLevel == .trace)
        #expect("\(configuration.storeOptions.synchronous)" == "full")
        #expect(configuration.entry("consumer.pageSize")?.source == .file("test.json5", line: 5))
        #expect(configuration.entry("shutdownTimeout")?.source == .default)
        #expect(configuration.shutdownTimeout == .seconds(8))
        #expect(configuration.pairs("cleaner.users") == ["orders-1": ["o"]])
        #expect(configuration.pairs("cleaner.commandUsers") == ["clean": ["ops", "o"], "evict": []])
        let shown = configuration.entry("cleaner.commandUsers").flatMap { entry in entry.value.map(entry.key.type.json)
        }
        #expect(shown == #"{"clean": ["ops", "o"], "evict": []}"#)
        // The mistake of asking a key for what it does not hold gives nothing, not something else.
        #expect(configuration.text("consumer.pageSize") == nil && configuration.duration("store") == nil)
    }

    @Test("the environment goes before the file, flags before both; an empty variable is none")
    func precedence() throws {
        let configuration = try TidingsConfiguration(
            text:
                "{ store: 'file', author: 'file', storeName: 'file', logLevel: 'error', cleaner: { batchAuthors: ['f'] } }",
            environment: [
                "TIDINGS_STORE": "environment", "TIDINGS_AUTHOR": "environment", "TIDINGS_STORE_NAME": "",
                "TIDINGS_CLEANER_BATCH_AUTHORS": "a, b ,c", "TIDINGS_PUBLISHER_RELAYS": "true",
                "TIDINGS_CLEANER_INTERVAL": "7d",
                "TIDINGS_CLEANER_COMMAND_USERS": "evict=ops,clean = o , clean=ops", "TIDINGS_CLEANER_USERS": "a=b",
            ],
            flags: ["store": "flag", "consumer.authors": "", "consumer.pageSize": "3", "broker.heartbeat": "0s"])
        let expected: [(String, String?, TidingsConfiguration.Source)] = [
            ("store", "flag", .flag), ("author", "environment", .environment("TIDINGS_AUTHOR")),
            ("storeName", "file", .file("test.json5", line: 1)), ("logLevel", "error", .file("test.json5", line: 1)),
            ("cleaner.batchAuthors", "a,b,c", .environment("TIDINGS_CLEANER_BATCH_AUTHORS")),
            ("publisher.relays", "true", .environment("TIDINGS_PUBLISHER_RELAYS")),
            ("cleaner.interval", "7d", .environment("TIDINGS_CLEANER_INTERVAL")), ("consumer.authors", "", .flag),
            ("cleaner.commandUsers", "clean=o,clean=ops,evict=ops", .environment("TIDINGS_CLEANER_COMMAND_USERS")),
            ("cleaner.users", "a=b", .environment("TIDINGS_CLEANER_USERS")), ("consumer.pageSize", "3", .flag),
            ("broker.heartbeat", "0s", .flag), ("contextName", nil, .default),
        ]
        for (path, shown, source) in expected {
            let entry = try #require(configuration.entry(path))
            #expect(entry.shown == shown && entry.source == source, "\(entry)")
        }
        #expect(
            configuration.list("cleaner.batchAuthors") == ["a", "b", "c"]
                && configuration.list("consumer.authors") == [])
    }

    @Test("TIDINGS_CONFIG names the file where nothing else does")
    func named() throws {
        let directory = try TemporaryDirectory()
        for name in ["a", "b"] { try write("{ author: '\(name)' }", to: directory.file(name)) }
        let environment = ["TIDINGS_CONFIG": directory.file("a")]
        #expect(try TidingsConfiguration(environment: environment).author == "a")
        #expect(try TidingsConfiguration(file: directory.file("b"), environment: environment).author == "b")
        #expect(try TidingsConfiguration(environment: ["TIDINGS_CONFIG": ""]).file == nil)
    }

    @Test(
        "durations and sizes in every unit, and back in the largest that fits",
        arguments: [
            ("1500ms", "1500ms"), ("1000ms", "1s"), ("90s", "90s"), ("120s", "2m"), ("24h", "1d"), ("7d", "7d"),
            ("0ms", "0s"),
        ])
    func durations(text: String, shown: String) throws {
        let duration = try #require(DurationText.parse(text))
        #expect(DurationText.text(duration) == shown && DurationText.parse(shown) == duration)
        #expect(ByteSize.parse("256KiB") == 262_144 && ByteSize.text(262_144) == "256KiB" && ByteSize.text(0) == "0B")
        #expect(ByteSize.text(1000) == "1000B" && ByteSize.parse("1000B") == 1000 && ByteSize.text(1 << 20) == "1MiB")
        for bad in [
            "", "10", "s", "-1s", "+1s", "1.5s", "1 s", "1S", "1sec", "99999999999999999999s", "9223372036854775807d",
        ] {
            #expect(DurationText.parse(bad) == nil, "\(bad)")
        }
        for bad in ["", "1", "1KB", "1kib", "KiB", "-1KiB", "9223372036854775807MiB"] {
            #expect(ByteSize.parse(bad) == nil)
        }
    }

    @Test("the broker: none, by URL, by file; with what is configured, and the URL's own before it")
    func broker() throws {
        let none = try TidingsConfiguration(text: "{ prefix: 'p', storeName: 's' }").broker()
        #expect(none.configuration == nil && none.prefix == "p" && none.storeName == "s")
        let directory = try TemporaryDirectory()
        try write("\n  amqp://u:p@one/v \nsecond line\n", to: directory.file("url"))
        let settings = """
            connectTimeout: "3s", heartbeat: "4s", replyTimeout: "5s", confirmTimeout: "6s", firstRetry: "1s", longestRetry: "2m"
            """
        for broker in [
            try TidingsConfiguration(text: "{ broker: { urlFile: '\(directory.file("url"))', \(settings) } }").broker(
                name: "n"),
            try TidingsConfiguration(
                text: "{ broker: { \(settings) } }", environment: ["TIDINGS_AMQP_URL": "amqp://u:p@one/v"]
            ).broker(name: "n"),
        ] {
            let configuration = try #require(broker.configuration)
            #expect(
                configuration.endpoints == [
                    AMQPEndpoint(host: "one", virtualHost: "v", credentials: .plain(user: "u", password: "p"))
                ])
            #expect(configuration.name == "n" && broker.prefix == "tidings" && broker.user == "u")
            #expect(configuration.connectTimeout == .seconds(3) && configuration.heartbeat == .seconds(4))
            #expect(configuration.replyTimeout == .seconds(5) && configuration.confirmTimeout == .seconds(6))
            #expect(configuration.recovery == .always(Backoff(first: .seconds(1), longest: .seconds(120))))
        }
        let certificate = "amqps://one?cacertfile=/a&certfile=/c&keyfile=/k&auth_mechanism=EXTERNAL"
        let certified = try TidingsConfiguration(
            text: "{ broker: { url: '\(certificate)' } }", environment: ["TIDINGS_BROKER_USER": "c"])
        #expect(try certified.broker().user == "c")
        let defaults = try TidingsConfiguration(text: "{ broker: { url: 'amqp://one?heartbeat=7' } }").broker()
            .configuration
        let usual = try AMQPConfiguration(urls: "amqp://one?heartbeat=7", name: "tidings")
        #expect(defaults?.endpoints == usual.endpoints && defaults?.recovery == usual.recovery)
        #expect(defaults?.connectTimeout == usual.connectTimeout && defaults?.heartbeat == usual.heartbeat)
        #expect(defaults?.replyTimeout == usual.replyTimeout && defaults?.confirmTimeout == usual.confirmTimeout)
    }

    @Test("the URL's file is read anew: its password may have changed, and then it may be wrong")
    func reread() throws {
        let directory = try TemporaryDirectory()
        let path = directory.file("url")
        try write("amqp://one", to: path)
        let configuration = try TidingsConfiguration(text: "{ broker: { urlFile: '\(path)' } }")
        try write("amqp://two", to: path)
        #expect(try configuration.broker().configuration?.endpoints.map(\.host) == ["two"])
        try write("amqp://u:secret@two/a/b", to: path)
        let wrong = #expect(throws: MessagingError.self) { try configuration.broker() }
        #expect(wrong?.code == .invalid && wrong?.description.contains("secret") == false)
        unlink(path)
        let missing = #expect(throws: MessagingError.self) { try configuration.broker() }
        #expect(missing?.message == "\(path), named by broker.urlFile: there is no such file: check the path")
    }

    @Test("a URL of a stronger source takes the place of a file of a weaker one, and the other way round")
    func strongerURL() throws {
        let directory = try TemporaryDirectory()
        try write("amqp://file", to: directory.file("url"))
        let file = directory.file("url")
        let byURL = try TidingsConfiguration(
            text: "{ broker: { urlFile: '\(file)' } }", environment: ["TIDINGS_AMQP_URL": "amqp://url"])
        #expect(try byURL.broker().configuration?.endpoints.map(\.host) == ["url"])
        #expect(byURL.entry("broker.urlFile")?.value == nil)
        let byFile = try TidingsConfiguration(
            text: "{ broker: { url: 'amqp://url' } }", environment: ["TIDINGS_AMQP_URL_FILE": file])
        #expect(try byFile.broker().configuration?.endpoints.map(\.host) == ["file"])
    }

    @Test("a variable that looks like one of these, and a password that every user may read, are warned of")
    func warnings() throws {
        let directory = try TemporaryDirectory()
        let path = directory.file("c.json5")
        try write("{ broker: { url: 'amqp://one' } }", to: path)
        let environment = [
            "TIDINGS_CONSUMER_POLLINTERVAL": "1s", "TIDINGS_SERVICE_HOST": "10.0.0.1",
            "TIDINGS_PORT_5672_TCP": "tcp://x",
            "TIDINGS_CONFIG": path, "OTHER": "x",
        ]
        chmod(path, 0o600)
        let warning =
            "TIDINGS_CONSUMER_POLLINTERVAL is not a variable of the configuration: "
            + "did you mean TIDINGS_CONSUMER_POLL_INTERVAL?"
        #expect(try TidingsConfiguration(environment: environment).warnings == [warning])
        chmod(path, 0o644)
        #expect(
            try TidingsConfiguration(environment: environment).warnings
                == ["\(path) holds a password, and every user may read it: `chmod o= \(path)`", warning])
    }

    @Test("Config/tidings.json5 documents exactly the keys there are, with their defaults")
    func sample() throws {
        let expected = ConfigurationDocument.sample
        let text = try Repository.text("Config/tidings.json5", expected: expected)
        let configuration = try TidingsConfiguration(text: text)
        for entry in configuration.entries {
            #expect(entry.value == entry.key.defaultValue, "\(entry)")
            let isGiven = entry.source != .default || entry.key.defaultValue == nil
            #expect(isGiven, "\(entry)")
        }
        #expect(text == expected)
    }

    @Test("the article documents exactly the keys there are")
    func article() throws {
        let expected = ConfigurationDocument.tables
        let path = "Sources/TidingsServices/TidingsServices.docc/Configuration.md"
        let text = try Repository.text(path, expected: expected, behind: "\n## Keys\n\n")
        #expect(text.hasSuffix("\n## Keys\n\n\(expected)"))
    }

    private func write(_ text: String, to path: String) throws {
        let file = try #require(fopen(path, "w"))
        fputs(text, file)
        fclose(file)
    }
}
