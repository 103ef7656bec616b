import Foundation
import Testing
import TidingsSQLite

@testable import HistoryMessaging

@Suite("Reading JSON", .timeLimit(.minutes(2)))
struct JSONReaderTests {
    /// Reads a whole text as one value, skipping it.
    private func skip(_ bytes: [UInt8]) throws(MessagingError) {
        var reader = JSONReader(bytes, subject: "text")
        try reader.skip()
        try reader.end()
    }

    private func value(_ text: String) throws(MessagingError) -> SQLiteValue {
        var reader = JSONReader(Array(text.utf8), subject: "text")
        let value = try reader.value()
        try reader.end()
        return value
    }

    private func string(_ bytes: [UInt8]) throws(MessagingError) -> String {
        var reader = JSONReader(bytes, subject: "text")
        return try reader.string("s")
    }

    @Test(
        "what RFC 8259 allows is accepted",
        arguments: [
            "null", "true", "false", "0", "-0", "1", "-12", "1.5", "1e5", "1E+5", "1e-5", "0.0e0", "\"\"", "[]", "{}",
            "[[],{}]", " \t\r\n[ 1 , 2 ] ", #"{"a":{"b":[1,{"c":null}]},"d":"e"}"#, #""\"\\\/\b\f\n\r\t\u00e9""#,
            #""\ud83d\ude00""#, #""\u0000""#, "\"\u{7F}\u{2028}\u{10FFFF}\"",
            #"{"":1}"#, "[1,[2,[3,[4]]],{\"x\":[]}]",
        ])
    func allowed(text: String) throws {
        try skip(Array(text.utf8))
    }

    @Test(
        "what it does not allow is refused, with the place",
        arguments: [
            ("", 0), (" ", 1), ("nul", 0), ("nulll", 4), ("True", 0), ("01", 0), ("-", 1), ("+1", 0), (".5", 0),
            ("1.", 2), ("1.e5", 2), ("1e", 2), ("1e+", 3), ("0x1", 1), ("NaN", 0), ("Infinity", 0), ("-Infinity", 1),
            ("[", 1), ("[1", 2), ("[1,", 3), ("[1,]", 3), ("[,1]", 1), ("[1 2]", 3), ("[1}", 2), ("{", 1), ("{1:2}", 1),
            (#"{"a"}"#, 4), (#"{"a":}"#, 5), (#"{"a":1,}"#, 7), (#"{"a":1"#, 6), (#"{"a" 1}"#, 5), (#"{"a":1]"#, 6),
            ("'a'", 0), ("\"", 1), ("\"a", 2), ("\"\\\"", 3), ("\"\\", 1), (#""\x""#, 1), (#""\u12""#, 1),
            (#""\u12g4""#, 1), ("\"\n\"", 1), ("\"\0\"", 1), (#""\ud800""#, 1), (#""\udc00""#, 1),
            (#""\ud800\ud800""#, 1), (#""\ud800x""#, 1), (#""\ud83d\u""#, 7), ("1 2", 2), ("{}x", 2), ("/**/1", 0),
            ("[1]]", 3), ("\u{FEFF}1", 0), ("[1\u{A0}]", 2),
        ])
    func refused(text: String, place: Int) {
        let error = #expect(throws: MessagingError.self) { try skip(Array(text.utf8)) }
        #expect(error?.code == .malformedMessage)
        let message = error?.message ?? ""
        #expect(message.hasSuffix(", at byte \(place)"), "\(message)")
    }

    @Test(
        "strings that are not UTF-8 are refused",
        arguments: [
            [0x80], [0xC0, 0x80], [0xC1, 0xBF], [0xC3], [0xC3, 0x28], [0xE0, 0x80, 0x80], [0xE2, 0x82],
            [0xED, 0xA0, 0x80],
            [0xED, 0xBF, 0xBF], [0xF0, 0x80, 0x80, 0x80], [0xF4, 0x90, 0x80, 0x80], [0xF5, 0x80, 0x80, 0x80], [0xFF],
            [0xF0, 0x9F, 0x98],
        ] as [[UInt8]])
    func malformedText(bytes: [UInt8]) {
        let text = [0x22] + bytes + [0x22]
        let error = #expect(throws: MessagingError.self) { try skip(text) }
        #expect(error?.message == "malformed text: a string that is not UTF-8, at byte 1")
    }

    @Test("every character reads back, escaped and as it is")
    func scalars() throws {
        for value in UInt32(0)...0x10FFFF {
            guard let scalar = Unicode.Scalar(value), value < 0x3000 || value % 97 == 0 else { continue }
            let text = String(scalar)
            let units = text.utf16.map {
                "\\u" + String(repeating: "0", count: 4 - String($0, radix: 16).count)
                    + String($0, radix: 16)
            }.joined()
            #expect(try string(Array("\"\(units)\"".utf8)) == text)
            guard value >= 0x20, value != 0x22, value != 0x5C else { continue }
            #expect(try string(Array("\"\(text)\"".utf8)).utf8.elementsEqual(text.utf8))
        }
    }

    @Test(
        "values have their storage class",
        arguments: [
            ("null", .null), ("0", 0), ("-0", 0), ("-5", -5), ("9007199254740991", .integer(9_007_199_254_740_991)),
            ("1.0", .real(1)), ("-0.0", .real(-0.0)), ("1e2", .real(100)), ("5e-324", .real(.leastNonzeroMagnitude)),
            ("1e-999", .real(0)), ("\"a\"", "a"), (#"{"$integer":"9223372036854775807"}"#, .integer(.max)),
            (#"{"$integer":"-9223372036854775808"}"#, .integer(.min)), (#"{"$real":"Infinity"}"#, .real(.infinity)),
            (#"{"$real":"-Infinity"}"#, .real(-.infinity)), (#"{"$text":"Yf8="}"#, .malformedText([0x61, 0xFF])),
            (#"{"$blob":""}"#, .blob([])), (#"{"$blob":"AA=="}"#, .blob([0])), (#"{"$blob":"AP8="}"#, .blob([0, 255])),
            (#"{ "$blob" : "+/+/" }"#, .blob([0xFB, 0xFF, 0xBF])),
        ] as [(String, SQLiteValue)])
    func values(text: String, expected: SQLiteValue) throws { #expect(try value(text) == expected) }

    @Test(
        "values that SQLite does not have, or that may have been rounded, are refused",
        arguments: [
            "true", "[]", "{}", "9007199254740992", "-9007199254740992", "99999999999999999999", "1e999", "-1e999",
            #"{"$integer":9}"#, #"{"$integer":"9223372036854775808"}"#, #"{"$integer":"+1"}"#, #"{"$integer":""}"#,
            #"{"$integer":"-"}"#, #"{"$integer":"1.0"}"#, #"{"$real":"NaN"}"#, #"{"$real":"1"}"#, #"{"$blob":"A"}"#,
            #"{"$blob":"AA=A"}"#, #"{"$blob":"AB=="}"#, #"{"$blob":"===="}"#, #"{"$blob":"A==="}"#,
            #"{"$blob":"AA\n="}"#,
            #"{"$blob":"AA-_"}"#, #"{"$other":"1"}"#, #"{"$blob":"","$text":""}"#, #"{"$blob":"","$blob":""}"#,
        ])
    func noValues(text: String) {
        let error = #expect(throws: MessagingError.self) { try value(text) }
        #expect(error?.code == .malformedMessage)
    }

    @Test("a number of millions of digits is a number like any other")
    func longNumbers() throws {
        let digits = String(repeating: "9", count: 2 << 20)
        #expect(try value("0.\(digits)") == .real(1))
        #expect(try value("0.\(digits.replacing("9", with: "0"))1") == .real(0))
        #expect(throws: MessagingError.self) { try value("\(digits).0") }
        #expect(throws: MessagingError.self) { try value("1e\(digits)") }
        #expect(throws: MessagingError.self) { try value(digits) }
    }

    @Test("nesting goes 32 levels deep and no deeper, however deep it is")
    func depth() throws {
        func nested(_ depth: Int) -> [UInt8] {
            Array(repeating: 0x5B, count: depth) + Array(repeating: 0x5D, count: depth)
        }
        try skip(nested(32))
        for depth in [33, 64, 65, 1_000_000] {
            let error = #expect(throws: MessagingError.self) { try skip(nested(depth)) }
            #expect(error?.message == "malformed text: nesting deeper than 32 levels, at byte 32")
        }
        let objects = String(repeating: "{\"a\":", count: 100_000)
        #expect(throws: MessagingError.self) { try skip(Array(objects.utf8)) }
    }

    @Test("a name may not come twice, among few and among many; two spellings of one character are two names")
    func names() throws {
        func read(_ names: [String]) throws(MessagingError) -> Int {
            let text = "{" + names.map { "\"\($0)\":1" }.joined(separator: ",") + "}"
            var reader = JSONReader(Array(text.utf8), subject: "text")
            var seen = MemberNames()
            try reader.beginObject("o")
            while try reader.nextMember(&seen) != nil { try reader.skip() }
            return seen.names.count
        }
        #expect(try read(["a", "b", "é", "e\u{301}", ""]) == 5)
        let many = (0..<100_000).map { "n\($0)" }
        #expect(try read(many) == 100_000)
        for twice in [["a", "a"], ["a", "b", "\\u0061"], many + ["n0"], many + ["n99999"]] {
            let error = #expect(throws: MessagingError.self) { try read(twice) }
            #expect(error?.message.hasPrefix("malformed text: a name that the object has already, at byte ") == true)
        }
    }
}
