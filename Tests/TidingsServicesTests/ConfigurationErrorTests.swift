import Glibc
import Testing
import TidingsTestKit

@testable import TidingsServices

@Suite("Mistakes in a configuration")
struct ConfigurationErrorTests {
    private static let duration = "expected duration in ms, s, m, h or d, from 10ms to 1h"
    private static let unshown = "a text that is not shown: it may hold a password"

    @Test(
        "each names key and place, what was found, what is allowed, and what may have been meant",
        arguments: [
            (
                "{ consumer: { pollIntervall: '1s' } }", "unknownKey",
                "consumer.pollIntervall: no such key: did you mean consumer.pollInterval?"
            ),
            (
                "{ pollInterval: '1s' }", "unknownKey",
                "pollInterval: no such key: did you mean relay.pollInterval or consumer.pollInterval?"
            ),
            ("{ log_level: 'info' }", "unknownKey", "log_level: no such key: did you mean logLevel?"),
            ("{ consmuer: { name: 'x' } }", "unknownKey", "consmuer: no such key: did you mean consumer?"),
            (
                "{ relay: { zzzzzz: 1 } }", "unknownKey",
                "relay.zzzzzz: no such key: there are grace, pollInterval, forgetAfter"
            ),
            (
                "{ zzzzzz: 1 }", "unknownKey",
                "zzzzzz: no such key: there are store, storeName, prefix, author, contextName, synchronous, tokenDirectory, "
                    + "autoStart, logLevel, shutdownTimeout, broker, publisher, relay, consumer, cleaner"
            ),
            ("{ 'amqp://u:secret@h': 1 }", "unknownKey", "(a key that is not shown): no such key: there are store,"),
            ("{ author: 'a', author: 'b' }", "repeatedKey", "author: given twice: take one of them out"),
            (
                "{ relay: { grace: '1s' }, 'relay.grace': null }", "repeatedKey",
                "relay.grace: given twice: take one of them out"
            ),
            (
                "{ relay: '5s' }", "badValue",
                "relay: found a text, expected an object with some of the keys grace, pollInterval, forgetAfter"
            ),
            ("{ store: {} }", "badValue", "store: found an object, expected path"),
            ("{ store: '' }", "badValue", "store: found an empty text, expected path"),
            ("{ store: 'amqp://u:secret@h' }", "badValue", "store: found a URL, expected path"),
            (
                "{ author: 'tidings' }", "badValue",
                "author: found 'tidings', expected text of at most 128 bytes without control characters, other than tidings"
            ),
            ("{ author: 5 }", "badValue", "author: found a number, expected text of at most 128 bytes"),
            (
                "{ consumer: { pollInterval: 10 } }", "badValue",
                "consumer.pollInterval: found a number without a unit, in no quotes, \(duration)"
            ),
            ("{ consumer: { pollInterval: '10' } }", "badValue", "consumer.pollInterval: found '10', \(duration)"),
            ("{ consumer: { pollInterval: '2h' } }", "badValue", "consumer.pollInterval: found '2h', \(duration)"),
            ("{ consumer: { pollInterval: ['1s'] } }", "badValue", "consumer.pollInterval: found a list, \(duration)"),
            (
                "{ consumer: { pageSize: '5' } }", "badValue",
                "consumer.pageSize: found a text, expected whole number from 1 to 100000"
            ),
            (
                "{ consumer: { pageSize: 0 } }", "badValue",
                "consumer.pageSize: found 0, expected whole number from 1 to 100000"
            ),
            ("{ consumer: { pageSize: 1.5 } }", "badValue", "consumer.pageSize: found a number, expected whole number"),
            (
                "{ consumer: { role: 'optionl' } }", "badValue",
                "consumer.role: found 'optionl', expected required or optional: did you mean optional?"
            ),
            ("{ consumer: { authors: 'a' } }", "badValue", "consumer.authors: found a text, expected list of texts"),
            (
                "{ consumer: { authors: ['a', 1] } }", "badValue",
                "consumer.authors: found a number as element 2, expected list of texts"
            ),
            (
                "{ consumer: { authors: [' '] } }", "badValue",
                "consumer.authors: found an empty text in the list, expected list of texts"
            ),
            (
                "{ autoStart: ['relays'] }", "badValue",
                "autoStart: found 'relays', expected list of some of relay, cleaner: did you mean relay?"
            ),
            (
                "{ cleaner: { users: { a: ['b'] } } }", "badValue",
                "cleaner.users: found a list for 'a', expected object with a text for each name"
            ),
            (
                "{ broker: { url: 'amqp://u:secret@one,amqp://v:secret@two' } }", "contradiction",
                "broker.user: the broker URLs log in as different users, 'u' and 'v': messages tell one user, whom every "
                    + "host must know: use one"
            ),
            (
                "{ broker: { url: 'amqp://u:secret@one', user: 'c' } }", "contradiction",
                "broker.user: the broker URL logs in as 'u', and the user is set to 'c': set it only where a certificate "
                    + "logs in"
            ),
            (
                "{ cleaner: { commandUsers: { a: [1] } } }", "badValue",
                "cleaner.commandUsers: found no text in the list of 'a', expected"
            ),
            (
                "{ cleaner: { users: { a: 'b', a: 'c' } } }", "badValue",
                "cleaner.users: found 'a' twice, expected object"
            ),
            ("{ cleaner: { users: { a: '' } } }", "badValue", "cleaner.users: found an empty text, expected object"),
            ("{ cleaner: { users: 'a=b' } }", "badValue", "cleaner.users: found a text, expected object"),
            ("{ publisher: { relays: 'yes' } }", "badValue", "publisher.relays: found a text, expected true or false"),
            (
                "{ publisher: { messageLimit: '256KB' } }", "badValue",
                "publisher.messageLimit: found '256KB', expected size in B, KiB or MiB, from 1KiB to 64MiB"
            ),
            ("{ logLevel: 'user:secret@h' }", "badValue", "logLevel: found \(unshown), expected trace or debug or"),
            ("{ logLevel: '\\u001b[31m\\u202e' }", "badValue", "logLevel: found '\u{FFFD}[31m\u{FFFD}', expected"),
            (
                "{ broker: { url: 'http://u:secret@h' } }", "badValue",
                "broker.url: a broker URL begins with amqp:// or amqps://"
            ),
            ("{ broker: { url: 'amqp://u:se/cret@h' } }", "badValue", "broker.url: a '/' in the user or password"),
            (
                "{ broker: { url: true } }", "badValue",
                "broker.url: found true or false, expected URL amqp://user:password@host"
            ),
            (
                "{ broker: { urlFile: '/nope/url' } }", "badValue",
                "broker.urlFile: /nope/url: there is no such file: check the path"
            ),
            (
                "{ broker: { urlFile: '/' } }", "badValue",
                "broker.urlFile: /: cannot be read (Is a directory): check the path"
            ),
            (
                "{ broker: { urlFile: '/dev/null' } }", "badValue",
                "broker.urlFile: /dev/null: empty: write the broker's URL into it"
            ),
            (
                "{ broker: { urlFile: '/dev/zero' } }", "badValue",
                "broker.urlFile: /dev/zero: larger than 64KiB: not what is meant"
            ),
            (
                "{ broker: { url: 'amqp://h', urlFile: '/x' } }", "contradiction",
                "broker.urlFile: broker.url is given too: take one of them out"
            ),
            (
                "{ broker: { heartbeat: '500ms' } }", "badValue",
                "broker.heartbeat: found 500ms, expected 0s or at least 1s"
            ),
            (
                "{ broker: { firstRetry: '40s' } }", "contradiction",
                "broker.longestRetry: found 30s, expected at least the 40s of broker.firstRetry"
            ),
            (
                "{ consumer: { longestRetry: '20ms' } }", "contradiction",
                "consumer.longestRetry: found 20ms, expected at least the 200ms of consumer.firstRetry"
            ),
            (
                "{ cleaner: { strategy: 'duration' } }", "contradiction",
                "cleaner.interval: the strategy duration needs it: give one"
            ),
            (
                "{ cleaner: { strategy: 'acknowledgements', interval: '1d' } }", "contradiction",
                "cleaner.count: the strategy acknowledgements needs it: give one"
            ),
        ])
    func mistakes(text: String, code: String, message: String) throws {
        let error = try #require(throws: ConfigurationError.self) { try TidingsConfiguration(text: text) }
        #expect(error.problems.count == 1 && error.code.description == code, "\(error)")
        #expect("\(error)".hasPrefix("test.json5:1: \(message)"), "\(error)")
        #expect(!"\(error)".contains("secret") && !error.isRetriable && error.isFatal)
    }

    @Test("all mistakes of all sources are told at once, in order")
    func all() throws {
        let error = try #require(throws: ConfigurationError.self) {
            try TidingsConfiguration(
                text: "{\n  nope: 1,\n  logLevel: 'loud',\n  cleaner: { strategy: 'duration',\n interval: 'soon' },\n}",
                environment: ["TIDINGS_AUTO_START": "relay,nothing", "TIDINGS_AMQP_URL": "amqp://u:secret@h:port"],
                flags: ["stroe": "x", "consumer.pageSize": "many"])
        }
        #expect(
            "\(error)" == """
                test.json5:2: nope: no such key: there are store, storeName, prefix, author, contextName, synchronous, tokenDirectory, \
                autoStart, logLevel, shutdownTimeout, broker, publisher, relay, consumer, cleaner
                test.json5:3: logLevel: found 'loud', expected trace or debug or info or warning or error
                test.json5:5: cleaner.interval: found 'soon', expected duration in ms, s, m, h or d, from 1s to 366d
                TIDINGS_AUTO_START: autoStart: found 'nothing', expected list of some of relay, cleaner
                TIDINGS_AMQP_URL: broker.url: the port in the broker URL is not a number from 1 to 65535
                command line: consumer.pageSize: found 'many', expected whole number from 1 to 100000
                command line: stroe: no such key: did you mean store?
                """)
    }

    @Test(
        "a file that cannot be read, is no text, too large or no JSON5 is told with its place; the rest is checked too")
    func files() throws {
        let directory = try TemporaryDirectory()
        let path = directory.file("c.json5")
        func message(_ bytes: [UInt8]?) throws -> String {
            if let bytes {
                let file = try #require(fopen(path, "w"))
                fwrite(bytes, 1, bytes.count, file)
                fclose(file)
            }
            let error = try #require(throws: ConfigurationError.self) {
                try TidingsConfiguration(file: path, environment: ["TIDINGS_LOG_LEVEL": "loud"])
            }
            #expect(error.problems.count == 2 && error.problems[1].key == "logLevel")
            return error.problems[0].description
        }
        #expect(try message(nil) == "\(path): there is no such file: check the path")
        #expect(try message([0x7B, 0xFF, 0x7D]) == "\(path): not UTF-8 text: save it as such")
        #expect(
            try message([UInt8](repeating: 0x20, count: 300_000)) == "\(path): larger than 256KiB: not what is meant")
        #expect(try message(Array("{\n a: 1 b".utf8)) == "\(path):2:7: expected ',' or '}'")
        #expect(try message(Array("[]".utf8)) == "\(path): expected one object in braces")
        #expect(try message([]) == "\(path):1:1: the text ends where a value is expected")
    }

    @Test("no credential in what a configuration shows of itself")
    func secrets() throws {
        let configuration = try TidingsConfiguration(
            text:
                "{ broker: { url: 'amqps://me:secret@one/v?password=secret&certfile=a&keyfile=b,amqp://me:secret@two' } }"
        )
        var dumped = ""
        dump(configuration, to: &dumped)
        for text in ["\(configuration)", String(reflecting: configuration), dumped, "\(configuration.entries)"] {
            #expect(!text.contains("secret"))
        }
        #expect(
            dumped.contains("broker.url: one:5671 (virtual host 'v', TLS), two:5672 (virtual host '/') (test.json5:1)"))
        #expect(
            configuration.entry("broker.url")?.shown == "one:5671 (virtual host 'v', TLS), two:5672 (virtual host '/')")
        // The program itself gets it.
        #expect(configuration.text("broker.url")?.contains("secret") == true)
    }

    @Test(
        "what was meant is found by few wrong letters, and not by many",
        arguments: [
            ("stroe", "store"), ("LOGLEVEL", "logLevel"), ("author", "author"), ("authors", "consumer.authors"),
            ("consumer.poll_interval", "consumer.pollInterval"), ("cleaner.cleanonstart", "cleaner.cleanOnStart"),
            ("xyz", nil), ("", nil), (String(repeating: "x", count: 100_000), nil),
        ] as [(String, String?)])
    func nearest(text: String, expected: String?) {
        #expect(KeyNames.nearest(to: text) == expected)
    }
}
