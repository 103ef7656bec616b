import FoundationEssentials
import Testing

@testable import TidingsServices

@Suite("JSON5")
struct JSON5Tests {
    @Test(
        "what the specification has in store for people who write by hand",
        arguments: [
            ("null", .null), (" true // yes\n", .bool(true)), ("\u{FEFF}/* a\n * b */false", .bool(false)),
            ("0", .integer(0)), ("-17", .integer(-17)), ("+17", .integer(17)), ("0x1F", .integer(31)),
            ("-0Xff", .integer(-255)), ("9223372036854775807", .integer(.max)),
            ("-9223372036854775808", .integer(.min)),
            (".5", .real(0.5)), ("5.", .real(5)), ("-1.5e-3", .real(-0.0015)), ("1E2", .real(100)),
            ("0.25", .real(0.25)),
            ("9223372036854775808", .real(9_223_372_036_854_775_808)), ("5.e1", .real(50)),
            (#""a\tb\n\"\\\/\x41\u00e4\ud83d\ude00\v""#, .text("a\tb\n\"\\/Aä😀\u{B}")),
            (#"'it\'s "so"'"#, .text("it's \"so\"")),
            ("'two \\\nlines \\\r\nmore'", .text("two lines more")), ("[]", .array([])),
            ("[1, [2,], 'x',]", .array([.integer(1), .array([.integer(2)]), .text("x")])), ("{}", .object([])),
            (
                "{\n  a: 1, // one\n  'b c': {},\n\n  \"$d\": [\n],\n}",
                .object([
                    .init(name: "a", line: 2, value: .integer(1)), .init(name: "b c", line: 3, value: .object([])),
                    .init(name: "$d", line: 5, value: .array([])),
                ])
            ),
            (
                "{ größe_1: null, a: 2, a: 3 }",
                .object([
                    .init(name: "größe_1", line: 1, value: .null), .init(name: "a", line: 1, value: .integer(2)),
                    .init(name: "a", line: 1, value: .integer(3)),
                ])
            ),
        ] as [(String, JSON5Value)])
    func values(text: String, expected: JSON5Value) throws {
        #expect(try JSON5Reader.read(text) == expected)
    }

    @Test(
        "a mistake is told with its line and column, and without what stands there",
        arguments: [
            ("", 1, 1, "the text ends where a value is expected"),
            ("{", 1, 2, "the text ends where a key or '}' is expected"),
            ("{\n  a: 1\n  b: 2\n}", 3, 3, "expected ',' or '}'"), ("[1 2]", 1, 4, "expected ',' or ']'"),
            ("{ secret }", 1, 10, "expected ':' behind a key"),
            ("{ a: secret }", 1, 6, "expected a value: texts stand in quotes"),
            ("{ -: 1 }", 1, 3, "expected a key or '}'"), ("{,}", 1, 2, "expected a key or '}'"),
            ("{ 1a: 1 }", 1, 3, "expected a key or '}'"),
            ("{} {}", 1, 4, "something follows the end of the configuration"),
            ("{ a: 'secret\n' }", 1, 6, "a text ends with its line: close the quotes, or write \\n"),
            ("'secret", 1, 1, "a text is not closed"), ("'\\", 1, 3, "the text ends behind '\\'"),
            ("'\\u12'", 1, 4, "an escape needs 4 hexadecimal digits"),
            ("'\\x'", 1, 4, "an escape needs 2 hexadecimal digits"),
            ("'\\1'", 1, 3, "no escape has that digit"), ("'\\ud800'", 1, 1, "a text holds a NUL or half a character"),
            ("'\\x00'", 1, 1, "a text holds a NUL or half a character"), ("/* secret", 1, 1, "a comment is not closed"),
            ("{ / }", 1, 3, "expected a comment behind '/'"), ("NaN", 1, 1, "a configuration has no such number"),
            ("-Infinity", 1, 1, "not a number"), ("1e999", 1, 1, "not a number"), ("1.2.3", 1, 1, "not a number"),
            ("- 1", 1, 1, "not a number"), ("1e", 1, 1, "not a number"), ("0x", 1, 1, "not a hexadecimal number"),
            ("0x8000000000000000", 1, 1, "not a hexadecimal number"),
            ("017", 1, 1, "a number does not begin with zeros"),
            ("12px", 1, 1, "not a number"), ("[[", 1, 3, "the text ends where a value is expected"),
            (".", 1, 1, "not a number"),
        ])
    func mistakes(text: String, line: Int, column: Int, message: String) {
        let error = #expect(throws: JSON5Error.self) { try JSON5Reader.read(text) }
        #expect(error == JSON5Error(line: line, column: column, message: message))
    }

    @Test("nesting without an end is refused before it takes the stack")
    func deep() {
        for text in [String(repeating: "[", count: 200_000), String(repeating: "{a:", count: 200_000)] {
            let error = #expect(throws: JSON5Error.self) { try JSON5Reader.read(text) }
            #expect(error?.message == "nested deeper than 32 levels")
        }
    }

    @Test("what FoundationEssentials reads of the sample is what is read here")
    func agrees() throws {
        struct Section: Decodable, Equatable {
            let heartbeat: String
        }
        struct Some: Decodable, Equatable {
            let store: String?
            let autoStart: [String]
            let prefix: String
            let broker: Section
        }
        let decoder = JSONDecoder()
        decoder.allowsJSON5 = true
        let text = try Repository.text("Config/tidings.json5")
        let decoded = try decoder.decode(Some.self, from: Data(text.utf8))
        let configuration = try TidingsConfiguration(text: text)
        #expect(decoded.store == configuration.store && decoded.autoStart == configuration.autoStart)
        #expect(decoded.prefix == configuration.text("prefix") && decoded.broker.heartbeat == "10s")
    }
}
