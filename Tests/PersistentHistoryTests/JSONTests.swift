import Foundation
import PersistentHistory
import Testing
import TidingsSQLite

@Suite("JSON")
struct JSONTests {
    private static func text(_ write: (inout JSONWriter) -> Void) -> String {
        var writer = JSONWriter()
        write(&writer)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    @Test(
        "every value tells its storage class",
        arguments: [
            (.null, "null"), (0, "0"), (-1, "-1"), (9_007_199_254_740_991, "9007199254740991"),
            (-9_007_199_254_740_991, "-9007199254740991"),
            (9_007_199_254_740_992, #"{"$integer":"9007199254740992"}"#),
            (-9_007_199_254_740_992, #"{"$integer":"-9007199254740992"}"#),
            (.integer(.max), #"{"$integer":"9223372036854775807"}"#),
            (.integer(.min), #"{"$integer":"-9223372036854775808"}"#),
            (1.0, "1.0"), (.real(-0.0), "-0.0"), (0.1, "0.1"), (1e20, "1e+20"), (1e15, "1000000000000000.0"),
            (.real(.leastNonzeroMagnitude), "5e-324"), (.real(1.7976931348623157e308), "1.7976931348623157e+308"),
            (.real(.infinity), #"{"$real":"Infinity"}"#), (.real(-.infinity), #"{"$real":"-Infinity"}"#),
            ("", #""""#), ("é👩‍👩‍👧\u{2028}\u{7F}", "\"é👩‍👩‍👧\u{2028}\u{7F}\""),
            ("\"\\/\n\r\t\u{8}\u{C}\0\u{1F}", #""\"\\/\n\r\t\u0008\u000c\u0000\u001f""#),
            ("a\nb", #""a\nb""#), (.malformedText([0x61, 0xFF]), #"{"$text":"Yf8="}"#),
            (.blob([]), #"{"$blob":""}"#), (.blob([0]), #"{"$blob":"AA=="}"#), (.blob([0, 255]), #"{"$blob":"AP8="}"#),
            (.blob([0xFB, 0xFF, 0xBF]), #"{"$blob":"+/+/"}"#), (.blob([1, 2, 3, 4]), #"{"$blob":"AQIDBA=="}"#),
        ] as [(SQLiteValue, String)])
    func values(value: SQLiteValue, expected: String) {
        #expect(Self.text { $0.value(value) } == expected)
    }

    @Test("base64 is what everybody's is, of every length")
    func base64() {
        var generator = SystemRandomNumberGenerator()
        for count in 0..<200 {
            let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
            #expect(Self.text { $0.base64(bytes) } == "\"\(Data(bytes).base64EncodedString())\"")
        }
    }

    @Test("every real reads back with its bits, and shows that it is one")
    func reals() throws {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<10_000 {
            let real = Double(bitPattern: .random(in: 0...UInt64.max, using: &generator))
            guard real.isFinite else { continue }
            let text = Self.text { $0.value(.real(real)) }
            #expect(Double(text)?.bitPattern == real.bitPattern && text.contains { ".e".contains($0) }, "\(text)")
        }
    }

    @Test("commas stand between elements and nowhere else")
    func structure() {
        let text = Self.text { writer in
            writer.object { writer in
                writer.key("a")
                writer.array { writer in
                    writer.integer(1)
                    writer.array { _ in }
                    writer.object { _ in }
                    writer.bool(true)
                    writer.string(String?.none)
                }
                writer.key("b\"")
                writer.values(["x": nil, "y": 2])
                writer.key("c")
                writer.values(nil)
            }
            writer.newline()
            writer.strings(["p", "q"])
        }
        #expect(text == #"{"a":[1,[],{},true,null],"b\"":{"x":null,"y":2},"c":null}"# + "\n" + #"["p","q"]"#)
    }

    @Test("what is taken in the middle goes on where it was")
    func pieces() {
        var writer = JSONWriter()
        writer.beginArray()
        writer.integer(1)
        let first = writer.takeBytes()
        writer.integer(2)
        writer.endArray()
        #expect(String(decoding: first + writer.bytes, as: UTF8.self) == "[1,2]")
        writer.removeAll()
        writer.null()
        #expect(String(decoding: writer.bytes, as: UTF8.self) == "null")
    }
}
