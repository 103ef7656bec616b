extension ConfigurationKey {
    /// All keys there are: the one table that the reader, the environment, `tidings config check` and the documentation
    /// go by. Those of a section stand together.
    public static let all: [ConfigurationKey] =
        store + broker + publisher + relay + consumer + cleaner

    /// What the sections are about.
    public static let sections: [(name: String, meaning: String)] = [
        ("broker", "Which broker carries the history, and the bounds of every wait for it."),
        ("publisher", "How transactions are published; but for relays, the relay goes by these keys too."),
        ("relay", "The relay publishes what nobody else does: one is active for each store."),
        ("consumer", "How a consumer follows the history."),
        ("cleaner", "When history is deleted that every required consumer has acknowledged."),
    ]

    /// The section that the key stands in; nil for none.
    public var section: String? {
        guard let dot = path.firstIndex(of: ".") else { return nil }
        return String(path[..<dot])
    }

    private static let store: [ConfigurationKey] = [
        ConfigurationKey("store", .path, nil, "The store's database file, where the command line names none."),
        ConfigurationKey(
            "storeName", .text, nil,
            "The store's name in queues and routing keys; null: its file's name without what follows the last dot."),
        ConfigurationKey(
            "prefix", .text, .text("tidings"), "What the names of all exchanges and queues at the broker begin with."),
        ConfigurationKey(
            "author", .author, nil, "Who writes: recorded with every transaction."),
        ConfigurationKey("contextName", .text, nil, "Which part of the author writes."),
        ConfigurationKey(
            "synchronous", .choice(["normal", "full"]), .text("normal"),
            "How much of a commit is waited for: with normal a power loss may take back the newest commits."),
        ConfigurationKey(
            "tokenDirectory", .path, nil, "The directory of consumers' token files; null: beside the store."),
        ConfigurationKey(
            "autoStart", .choices(["relay", "cleaner"]), .list(["relay", "cleaner"]),
            "What `tidings serve` starts; the cleaner alone needs no broker."),
        ConfigurationKey(
            "logLevel", .choice(["trace", "debug", "info", "warning", "error"]), .text("info"),
            "The least important entries that are logged."),
        // Docker kills after 10 s.
        ConfigurationKey(
            "shutdownTimeout", .duration(.zero...(.seconds(3600))), .duration(.seconds(8)),
            "How long services may take to finish what is under way after SIGTERM or SIGINT."),
    ]

    private static let wait = ConfigurationType.duration(.seconds(1)...(.seconds(3600)))
    private static let bound = ConfigurationType.duration(.zero...(.seconds(3600)))
    private static let delay = ConfigurationType.duration(.milliseconds(10)...(.seconds(3600)))

    private static let broker: [ConfigurationKey] = [
        ConfigurationKey(
            "broker.url", .brokerURL, nil,
            "How to reach the broker; null, without urlFile: none, and consumers poll. It holds a password.",
            variable: "TIDINGS_AMQP_URL"),
        ConfigurationKey(
            "broker.urlFile", .path, nil, "A file whose first line is the URL, which only its user may read.",
            variable: "TIDINGS_AMQP_URL_FILE"),
        ConfigurationKey(
            "broker.user", .text, nil,
            "The user that the broker sees; null: the URL's. Needed where a certificate logs in: the name in it."),
        ConfigurationKey(
            "broker.connectTimeout", wait, .duration(.seconds(10)),
            "How long connecting to one host may take, TLS and login included; the URL's own goes first."),
        ConfigurationKey(
            "broker.heartbeat", .duration(.zero...(.seconds(3600))), .duration(.seconds(10)),
            "A broker silent for two of these is lost; 0s: never by silence; the URL's own goes first."),
        ConfigurationKey(
            "broker.replyTimeout", wait, .duration(.seconds(20)), "How long the broker may take to answer a request."),
        ConfigurationKey(
            "broker.confirmTimeout", wait, .duration(.seconds(60)),
            "How long the broker may take to confirm a message before it is sent again."),
        ConfigurationKey(
            "broker.firstRetry", delay, .duration(.milliseconds(500)),
            "The delay before the first attempt to reach a lost broker; it doubles, with jitter."),
        ConfigurationKey(
            "broker.longestRetry", delay, .duration(.seconds(30)), "The longest delay between attempts."),
    ]

    private static let publisher: [ConfigurationKey] = [
        ConfigurationKey(
            "publisher.messageLimit", .size((1 << 10)...(64 << 20)), .size(256 << 10),
            "A transaction whose message were larger is announced without its changes; below the broker's limit."),
        ConfigurationKey(
            "publisher.window", .integer(1...100_000), .integer(1000), "The most messages unconfirmed at a time."),
        ConfigurationKey(
            "publisher.windowSize", .size((1 << 10)...(256 << 20)), .size(1 << 20),
            "The most bytes unconfirmed at a time; a larger message goes alone."),
        ConfigurationKey(
            "publisher.relays", .bool, .bool(false), "Whether a relay runs in the publisher's process too."),
        ConfigurationKey(
            "publisher.firstRetry", delay, .duration(.milliseconds(100)),
            "The delay before what the broker did not take is sent again; it doubles, with jitter."),
        ConfigurationKey(
            "publisher.longestRetry", delay, .duration(.seconds(10)), "The longest delay between attempts."),
        ConfigurationKey(
            "publisher.drainTimeout", bound, .duration(.seconds(5)),
            "How long a stop waits for the broker to confirm what is left; below shutdownTimeout."),
    ]

    private static let relay: [ConfigurationKey] = [
        ConfigurationKey(
            "relay.grace", bound, .duration(.seconds(5)),
            "How long a publisher that has something to publish may be silent before the relay publishes it."),
        ConfigurationKey(
            "relay.pollInterval", delay, .duration(.milliseconds(200)), "How often the store is looked at."),
        ConfigurationKey(
            "relay.forgetAfter", wait, .duration(.seconds(600)),
            "After how long a publisher that has nothing left is forgotten."),
    ]

    private static let consumer: [ConfigurationKey] = [
        ConfigurationKey(
            "consumer.name", .text, nil, "What the consumer is called: tokens and acknowledgements belong to the name."),
        ConfigurationKey(
            "consumer.start", .choice(["snapshot", "beginning", "now"]), nil,
            "Where a new consumer starts; null: snapshot where its contexts can load one, or else beginning."),
        ConfigurationKey(
            "consumer.authors", .list, nil, "Merge these authors' transactions only; null: all; []: none."),
        ConfigurationKey(
            "consumer.excludingAuthors", .list, .list([]), "Never merge these authors' transactions."),
        ConfigurationKey(
            "consumer.mirrorAuthors", .list, .list([]), "Authors that mirror another store."),
        ConfigurationKey(
            "consumer.mergesMirrors", .bool, .bool(false), "Whether the transactions of mirror authors are merged."),
        ConfigurationKey(
            "consumer.role", .choice(["required", "optional"]), .text("required"),
            "Whether history waits for this consumer before it is deleted."),
        ConfigurationKey(
            "consumer.pollInterval", delay, .duration(.seconds(10)),
            "How often the store is looked at while the broker is there."),
        ConfigurationKey(
            "consumer.pollIntervalWithoutBroker", delay, .duration(.seconds(1)),
            "How often the store is looked at while it is not."),
        ConfigurationKey(
            "consumer.pageSize", .integer(1...100_000), .integer(4000), "The most transactions merged at a time."),
        ConfigurationKey(
            "consumer.firstRetry", delay, .duration(.milliseconds(200)),
            "The delay before a failed merge is tried again; it doubles, with jitter."),
        ConfigurationKey(
            "consumer.longestRetry", delay, .duration(.seconds(30)), "The longest delay between attempts."),
        ConfigurationKey(
            "consumer.attemptsBeforeStall", .integer(1...1_000_000), .integer(10),
            "After so many failed attempts at one merge the consumer stalls and waits for an operator."),
        ConfigurationKey(
            "consumer.registrationWait", bound, .duration(.seconds(5)),
            "How long the first snapshot waits for the cleaner to know the consumer."),
        ConfigurationKey(
            "consumer.acknowledgeInterval", wait, .duration(.seconds(300)),
            "How often an idle consumer acknowledges again."),
        ConfigurationKey(
            "consumer.prefetch", .integer(1...65_535), .integer(500), "The most deliveries that may wait unsettled."),
    ]

    private static let cleaner: [ConfigurationKey] = [
        ConfigurationKey(
            "cleaner.requiredAuthors", .list, .list([]), "History waits for a consumer of each of these authors."),
        ConfigurationKey(
            "cleaner.batchAuthors", .list, .list([]), "Authors that only write: history never waits for them."),
        ConfigurationKey(
            "cleaner.mirrorAuthors", .list, .list([]), "Authors that mirror another store."),
        ConfigurationKey(
            "cleaner.cleansMirrors", .bool, .bool(false), "Whether the transactions of mirror authors are deleted."),
        ConfigurationKey(
            "cleaner.strategy", .choice(["none", "duration", "acknowledgements"]), .text("none"),
            "When the cleaner cleans by itself: never, at most once an interval, after every count acknowledgements."),
        ConfigurationKey(
            "cleaner.interval", .duration(.seconds(1)...(.seconds(366 * 86_400))), nil,
            "For the strategy duration: the least time between two cleanings."),
        ConfigurationKey(
            "cleaner.count", .integer(1...1_000_000_000), nil,
            "For the strategy acknowledgements: how many of them there are to each cleaning."),
        ConfigurationKey(
            "cleaner.cleanOnStart", .bool, .bool(false),
            "Whether the cleaner cleans as it starts, whatever the strategy."),
        ConfigurationKey(
            "cleaner.users", .pairs(several: false), .pairs([:]),
            "The broker's user who may acknowledge for a consumer; for one not named, whoever registered it."),
        ConfigurationKey(
            "cleaner.commandUsers", .pairs(several: true), .pairs([:]),
            "The broker's users who may give a command; for one not named, every user, and nobody for clean."),
        ConfigurationKey(
            "cleaner.drainTimeout", bound, .duration(.seconds(5)),
            "How long a stop waits for the broker to take what is left; below shutdownTimeout."),
    ]
}
