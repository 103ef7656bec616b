public import HistoryMessaging
public import PersistentHistory
internal import TidingsAMQP

extension TidingsConfiguration {
    /// How a publisher is configured, and the relay in its process, if it has one.
    public func publisherOptions(logger: any HistoryLogger = SilentLogger()) -> HistoryPublisher.Options {
        var options = HistoryPublisher.Options()
        options.window = window
        options.messageLimit = integer("publisher.messageLimit") ?? options.messageLimit
        options.relays = isTrue("publisher.relays")
        options.relay = relayOptions(logger: logger)
        options.retry = backoff("publisher")
        options.drainTimeout = duration("publisher.drainTimeout") ?? options.drainTimeout
        options.logger = logger
        return options
    }

    /// How a relay is configured.
    public func relayOptions(logger: any HistoryLogger = SilentLogger()) -> HistoryRelay.Options {
        var options = HistoryRelay.Options()
        options.grace = duration("relay.grace") ?? options.grace
        options.pollInterval = duration("relay.pollInterval") ?? options.pollInterval
        options.forgetAfter = duration("relay.forgetAfter") ?? options.forgetAfter
        options.window = window
        options.messageLimit = integer("publisher.messageLimit") ?? options.messageLimit
        options.retry = backoff("publisher")
        options.drainTimeout = duration("publisher.drainTimeout") ?? options.drainTimeout
        options.logger = logger
        return options
    }

    /// What a consumer is called; nil where nothing is configured.
    public var consumerName: String? { text("consumer.name") }

    /// How a consumer is configured.
    public func consumerOptions(logger: any HistoryLogger = SilentLogger()) -> HistoryConsumer.Options {
        var options = HistoryConsumer.Options()
        options.author = author
        options.start = start
        options.authors = list("consumer.authors").map { Set($0) }
        options.excludingAuthors = set("consumer.excludingAuthors")
        options.mirrorAuthors = set("consumer.mirrorAuthors")
        options.mergesMirrors = isTrue("consumer.mergesMirrors")
        options.role = text("consumer.role") == "optional" ? .optional : .required
        options.tokenDirectory = text("tokenDirectory")
        options.pollInterval = duration("consumer.pollInterval") ?? options.pollInterval
        options.pollIntervalWithoutBroker =
            duration("consumer.pollIntervalWithoutBroker") ?? options.pollIntervalWithoutBroker
        options.pageSize = integer("consumer.pageSize") ?? options.pageSize
        options.retry = backoff("consumer")
        options.attemptsBeforeStall = integer("consumer.attemptsBeforeStall") ?? options.attemptsBeforeStall
        options.registrationWait = duration("consumer.registrationWait") ?? options.registrationWait
        options.acknowledgeInterval = duration("consumer.acknowledgeInterval") ?? options.acknowledgeInterval
        options.prefetch = integer("consumer.prefetch").flatMap { UInt16(exactly: $0) } ?? options.prefetch
        options.logger = logger
        return options
    }

    /// How a cleaner is configured.
    public func cleanerOptions(logger: any HistoryLogger = SilentLogger()) -> HistoryCleaner.Options {
        var options = HistoryCleaner.Options()
        options.requiredAuthors = set("cleaner.requiredAuthors")
        options.batchAuthors = set("cleaner.batchAuthors")
        options.mirrorAuthors = set("cleaner.mirrorAuthors")
        options.cleansMirrors = isTrue("cleaner.cleansMirrors")
        options.strategy = strategy
        options.cleanOnStart = isTrue("cleaner.cleanOnStart")
        options.users = (pairs("cleaner.users") ?? [:]).compactMapValues(\.first)
        options.commandUsers = (pairs("cleaner.commandUsers") ?? [:]).mapValues { Set($0) }
        options.drainTimeout = duration("cleaner.drainTimeout") ?? options.drainTimeout
        options.logger = logger
        return options
    }

    private var window: AMQPPublisher.Window {
        let usual = AMQPPublisher.Window()
        return AMQPPublisher.Window(
            messages: integer("publisher.window") ?? usual.messages,
            bytes: integer("publisher.windowSize") ?? usual.bytes)
    }

    private var start: HistoryConsumer.Start? {
        switch text("consumer.start") {
        case "snapshot": .snapshot
        case "beginning": .beginning
        case "now": .now
        default: nil
        }
    }

    // A strategy without its number is refused as the configuration is read.
    private var strategy: CleaningStrategy {
        switch text("cleaner.strategy") {
        case "duration": duration("cleaner.interval").map { .byDuration($0) } ?? .none
        case "acknowledgements": integer("cleaner.count").map { .byAcknowledgements($0) } ?? .none
        default: .none
        }
    }

    private func set(_ path: String) -> Set<String> { Set(list(path) ?? []) }
}
