import Foundation
import PersistentHistory
import Testing
import TidingsSQLite

@testable import TidingsCommand

@Suite("Arguments")
struct ArgumentsTests {
    private static let options: [Option] = [
        .value("--author", "A", "who writes", isRepeatable: true),
        .value("--limit", "N", "at most so many"),
        .flag("--json", "as JSON"),
    ]
    private static let database = Operand.one("DB", "the store's database file")
    private static let operands: [Operand] = [database, .any("SQL", "statements")]

    private static func parse(_ words: String...) throws -> Arguments {
        try Arguments(words, operands: operands, options: options)
    }

    private static func message(_ words: String...) -> String? {
        do {
            let arguments = try Arguments(words, operands: operands, options: options)
            _ = try arguments.integer("--limit", minimum: 1)
            return nil
        } catch { return error.message }
    }

    @Test("options stand before, between and behind operands, with = or a space")
    func places() throws {
        let arguments = try Self.parse("--json", "a.db", "--author", "x", "SELECT 1", "--author=y=z", "--limit", "3")
        #expect(arguments.operands == ["a.db", "SELECT 1"])
        #expect(arguments.has("--json"))
        #expect(arguments.strings("--author") == ["x", "y=z"])
        #expect(try arguments.integer("--limit") == 3)
    }

    @Test("-- ends the options; - alone is an operand; an empty value is one")
    func ends() throws {
        let arguments = try Self.parse("a.db", "-", "--author=", "--", "-- a comment", "--json")
        #expect(arguments.operands == ["a.db", "-", "-- a comment", "--json"])
        #expect(arguments.strings("--author") == [""])
        #expect(!arguments.has("--json") && arguments.string("--limit") == nil)
    }

    @Test("each mistake names the option and what was expected")
    func mistakes() {
        #expect(Self.message() == "DB is missing: the store's database file")
        #expect(
            Self.message("a.db", "--wrong=1")
                == "unknown option --wrong: what is none but begins with a dash goes behind --")
        #expect(Self.message("a.db", "-5") == "unknown option -5: what is none but begins with a dash goes behind --")
        #expect(Self.message("a.db", "--author") == "--author expects A: who writes")
        #expect(Self.message("a.db", "--author", "--json") == "--author expects A: who writes")
        #expect(Self.message("a.db", "--json=yes") == "--json takes no value")
        #expect(Self.message("a.db", "--limit", "1", "--limit", "2") == "--limit is given twice")
        #expect(Self.message("a.db", "--json", "--json") == "--json is given twice")
        for text in ["x", "", "1.5", "0", "-1", "+1", "9223372036854775808", " 1"] {
            #expect(
                Self.message("a.db", "--limit", text) == "--limit expects a whole number from 1 on, not \(text)")
        }
        #expect(Self.message("a.db", "--limit", "9223372036854775807") == nil)
    }

    @Test("operands are counted by name")
    func operandCounts() {
        func message(_ words: [String]) -> String? {
            do {
                _ = try Arguments(words, operands: [Self.database, .one("N", "the sequence")])
                return nil
            } catch { return error.message }
        }
        #expect(message(["a.db"]) == "N is missing: the sequence")
        #expect(message(["a.db", "1"]) == nil)
        #expect(message(["a.db", "1", "2"]) == "unexpected operand 2")
    }

    @Test("DB stands first; how many operands there are tells whether it was left out, and - says that it was")
    func database() throws {
        func read(_ words: [String], _ declared: [Operand]) throws -> [String?] {
            let arguments = try Arguments(words, operands: declared)
            return [arguments.database] + arguments.furtherOperands
        }
        #expect(try read([], [.database]) == [nil])
        #expect(try read(["a.db"], [.database]) == ["a.db"])
        #expect(try read(["-"], [.database]) == [nil])
        let fixed: [Operand] = [.database, .one("N", "the sequence")]
        #expect(try read(["1"], fixed) == [nil, "1"])
        #expect(try read(["a.db", "1"], fixed) == ["a.db", "1"])
        #expect(try read(["-", "1"], fixed) == [nil, "1"])
        let any: [Operand] = [.leadingDatabase, .any("SQL", "statements")]
        #expect(try read([], any) == [nil])
        #expect(try read(["a.db"], any) == ["a.db"])
        #expect(try read(["a.db", "x", "-"], any) == ["a.db", "x", "-"])
        #expect(try read(["-", "x"], any) == [nil, "x"])
        #expect(try read(["x"], [.one("DIR", "a directory")]) == [nil, "x"])
    }

    @Test("a time is RFC 3339 or an age")
    func times() throws {
        let now = Date(timeIntervalSince1970: 1_000_000)
        func time(_ text: String) throws -> Double {
            try TimeOption.parse(text, of: "--since", now: now).timeIntervalSince1970
        }
        #expect(try time("45s") == 999_955)
        #expect(try time("30m") == 998_200)
        #expect(try time("12h") == 956_800)
        #expect(try time("7d") == 395_200)
        #expect(try time("0s") == 1_000_000)
        #expect(try time("1970-01-01T00:00:01.5Z") == 1.5)
        #expect(try time("1970-01-01T02:00:00+02:00") == 0)
        for text in ["", "d", "7", "-7d", "+7d", "7w", "1.5h", "yesterday", "1970-01-01", "99999999999d"] {
            #expect(throws: UsageError.self) { try time(text) }
        }
    }

    @Test("help is made of what is declared")
    func help() {
        let expected = """
            usage: tidings purge [DB] --before N [--dry-run] [--config FILE] [--set KEY=VALUE]…

            Delete the oldest part of the history.

            Prints the number of transactions deleted. The tables themselves are never touched. N is at most one
            more than the newest sequence, which deletes the whole history.

              DB               the store's database file; left out, or -: the one that the key store configures
              --before N       the first sequence that stays
              --dry-run        only count what would be deleted
              --config FILE    a configuration; without it the file that TIDINGS_CONFIG names
              --set KEY=VALUE  one key of the configuration
              --help           print this text
            """
        #expect(PurgeCommand.help == expected)
        for subcommand in TidingsCommand.subcommands {
            #expect(subcommand.help.split(separator: "\n").allSatisfy { $0.count <= 120 }, "\(subcommand.name)")
        }
    }
}

@Suite("--object")
struct ObjectOptionTests {
    private static func keys(_ text: String, _ columns: String..., isRowID: Bool = false) -> Set<[SQLiteValue]> {
        let shape = EntityKey(entity: "t", columns: columns, isRowID: isRowID)
        return Set(ObjectOption.keys(text, shape).map(\.values))
    }

    @Test("one column: every value that the text can mean, with or without the column's name")
    func one() {
        #expect(Self.keys("5", "id") == [["5"], [5], [5.0]])
        #expect(Self.keys("id=5", "id") == [["id=5"], ["5"], [5], [5.0]])
        #expect(Self.keys("a,b", "id") == [["a,b"]])
        #expect(Self.keys("NULL", "id") == [["NULL"], [nil]])
        #expect(Self.keys("x'00fF'", "id") == [["x'00fF'"], [.blob([0, 255])]])
        #expect(Self.keys("", "id") == [[""]])
        #expect(Self.keys("nan", "id") == [["nan"]])
    }

    @Test("a rowid: whole numbers only, with or without the column's name")
    func rowID() {
        #expect(Self.keys("5", "id", isRowID: true) == [[5]])
        #expect(Self.keys("id=-5", "id", isRowID: true) == [[-5]])
        #expect(Self.keys("ID=5", "id", isRowID: true) == [[5]])
        for text in ["", "abc", "5.0", "title=Tea", "id=", "NULL", "9223372036854775808"] {
            #expect(Self.keys(text, "id", isRowID: true).isEmpty, "\(text)")
        }
    }

    @Test("several columns: named, in any order, values with commas and equals signs")
    func several() {
        #expect(Self.keys("a=x,b=y", "a", "b") == [["x", "y"]])
        #expect(Self.keys("b=y,a=x", "a", "b") == [["x", "y"]])
        #expect(Self.keys("a=x,1,b=c=d", "a", "b") == [["x,1", "c=d"]])
        #expect(Self.keys("a,b=p,k=5", "a,b", "k") == [["p", "5"], ["p", 5], ["p", 5.0]])
        #expect(Self.keys("a=,b=", "a", "b") == [["", ""]])
        #expect(Self.keys("A=x,É=y", "a", "É") == [["x", "y"]])
        // A text may hold what looks like another column.
        #expect(Self.keys("a=x,b=y,a=z", "a", "b") == [["x", "y,a=z"]])
        for text in ["x", "a=x", "a=x,c=y", "a=x,a=y", ""] { #expect(Self.keys(text, "a", "b").isEmpty, "\(text)") }
    }

    @Test("the entity ends at a colon, at the last one that leaves a known name")
    func names() throws {
        let names = try ObjectOption("t:a:b").names
        #expect(names == [.init(entity: "t:a", key: "b"), .init(entity: "t", key: "a:b")])
        #expect(try ObjectOption("t:").names == [.init(entity: "t", key: "")])
        #expect(try ObjectOption(":t:5").names == [.init(entity: ":t", key: "5")])
        for text in ["", ":5", "t"] { #expect(throws: UsageError.self) { try ObjectOption(text) } }
    }
}

@Suite("Readable text")
struct ReadableTextTests {
    @Test("nothing from the database steers the terminal or leaves its line")
    func controls() {
        #expect(
            ReadableText.plain("a\u{1B}[31m\n\r\t\u{7F}\u{9B}é\u{202E}\u{2028}👩‍👩‍👧\0")
                == "a\\u{1b}[31m\\n\\r\\t\\u{7f}\\u{9b}é\\u{202e}\\u{2028}👩‍👩‍👧\\u{0}")
    }
}
