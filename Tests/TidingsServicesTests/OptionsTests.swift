import HistoryMessaging
import PersistentHistory
import Testing
import TidingsAMQP

@testable import TidingsServices

@Suite("Options of agents from a configuration")
struct OptionsTests {
    @Test("the table's defaults are those of the agents")
    func defaults() throws {
        let configuration = try TidingsConfiguration(environment: [:])
        for (configured, usual) in [
            (fields(configuration.publisherOptions()), fields(HistoryPublisher.Options())),
            (fields(configuration.relayOptions()), fields(HistoryRelay.Options())),
            (fields(configuration.consumerOptions()), fields(HistoryConsumer.Options())),
            (fields(configuration.cleanerOptions()), fields(HistoryCleaner.Options())),
        ] {
            #expect(configured == usual && configured.count >= 8)
        }
        #expect(configuration.consumerName == nil)
        let broker = try AMQPConfiguration(urls: "amqp://one", name: "tidings")
        #expect(configuration.backoff("broker") == Backoff() && broker.recovery == .always(Backoff()))
    }

    @Test("every key of a section reaches its agent: none may be there that does nothing")
    func every() throws {
        let configuration = try TidingsConfiguration(
            text: """
                {
                  author: "orders", tokenDirectory: "/tokens",
                  publisher: {
                    messageLimit: "2KiB", window: 7, windowSize: "3KiB", relays: true, firstRetry: "20ms", longestRetry: "30ms",
                    drainTimeout: "4s",
                  },
                  relay: { grace: "1s", pollInterval: "2s", forgetAfter: "3s" },
                  consumer: {
                    name: "orders-1", start: "now", authors: ["a"], excludingAuthors: ["b"], mirrorAuthors: ["c"],
                    mergesMirrors: true, role: "optional", pollInterval: "3s", pollIntervalWithoutBroker: "4s", pageSize: 5,
                    firstRetry: "60ms", longestRetry: "70ms", attemptsBeforeStall: 8, registrationWait: "9s",
                    acknowledgeInterval: "10s", prefetch: 11,
                  },
                  cleaner: {
                    requiredAuthors: ["a"], batchAuthors: ["b"], mirrorAuthors: ["c"], cleansMirrors: true,
                    strategy: "acknowledgements", interval: "1d", count: 12, cleanOnStart: true, users: { x: "y" },
                    commandUsers: { clean: ["ops"] }, drainTimeout: "13s",
                  },
                }
                """)
        let sections: Set = ["publisher", "relay", "consumer", "cleaner"]
        for entry in configuration.entries where entry.key.section.map(sections.contains) == true {
            #expect(entry.value != entry.key.defaultValue, "\(entry) is not tried")
        }
        let publisher = configuration.publisherOptions()
        #expect(publisher.messageLimit == 2048 && publisher.window == AMQPPublisher.Window(messages: 7, bytes: 3072))
        #expect(publisher.relays && publisher.drainTimeout == .seconds(4))
        #expect(publisher.retry == Backoff(first: .milliseconds(20), longest: .milliseconds(30)))
        let relay = configuration.relayOptions()
        #expect(fields(publisher.relay) == fields(relay))
        #expect(relay.grace == .seconds(1) && relay.pollInterval == .seconds(2) && relay.forgetAfter == .seconds(3))
        #expect(relay.messageLimit == 2048 && relay.window == publisher.window && relay.retry == publisher.retry)
        #expect(relay.drainTimeout == .seconds(4))
        let consumer = configuration.consumerOptions()
        #expect(consumer.author == "orders" && consumer.start == .now && consumer.authors == ["a"])
        #expect(consumer.excludingAuthors == ["b"] && consumer.mirrorAuthors == ["c"] && consumer.mergesMirrors)
        #expect(consumer.role == .optional && consumer.tokenDirectory == "/tokens" && consumer.pageSize == 5)
        #expect(consumer.pollInterval == .seconds(3) && consumer.pollIntervalWithoutBroker == .seconds(4))
        #expect(consumer.retry == Backoff(first: .milliseconds(60), longest: .milliseconds(70)))
        #expect(consumer.attemptsBeforeStall == 8 && consumer.registrationWait == .seconds(9))
        #expect(consumer.acknowledgeInterval == .seconds(10) && consumer.prefetch == 11)
        #expect(configuration.consumerName == "orders-1")
        let cleaner = configuration.cleanerOptions()
        #expect(cleaner.requiredAuthors == ["a"] && cleaner.batchAuthors == ["b"] && cleaner.mirrorAuthors == ["c"])
        #expect(cleaner.cleansMirrors && cleaner.strategy == .byAcknowledgements(12) && cleaner.cleanOnStart)
        #expect(cleaner.users == ["x": "y"] && cleaner.commandUsers == ["clean": ["ops"]])
        #expect(cleaner.drainTimeout == .seconds(13))
    }

    @Test(
        "words that stand for cases", arguments: [("snapshot", "snapshot"), ("beginning", "beginning"), ("now", "now")])
    func starts(text: String, expected: String) throws {
        let configuration = try TidingsConfiguration(text: "{ consumer: { start: '\(text)' } }")
        #expect(configuration.consumerOptions().start.map { "\($0)" } == expected)
        let daily = try TidingsConfiguration(text: "{ cleaner: { strategy: 'duration', interval: '7d' } }")
        #expect(daily.cleanerOptions().strategy == .byDuration(.seconds(7 * 86_400)))
        let nobody = try TidingsConfiguration(text: "{ consumer: { authors: [] } }").consumerOptions()
        #expect(nobody.authors == [])
    }

    @Test("agents log where they are told to")
    func loggers() throws {
        let configuration = try TidingsConfiguration(environment: [:])
        let logger = RecordingLogger()
        let loggers: [any HistoryLogger] = [
            configuration.publisherOptions(logger: logger).logger,
            configuration.publisherOptions(logger: logger).relay.logger,
            configuration.relayOptions(logger: logger).logger,
            configuration.consumerOptions(logger: logger).logger, configuration.cleanerOptions(logger: logger).logger,
        ]
        for logger in loggers { logger.log(.info) { HistoryLogEntry("s", "x") } }
        #expect(logger.all == [String](repeating: "info s: x", count: 5))
    }

    /// All stored properties of a value, so that one which nobody configures is noticed where defaults differ.
    private func fields(_ value: Any) -> [String] {
        Mirror(reflecting: value).children.map { "\($0.label ?? ""): \($0.value)" }
    }
}
