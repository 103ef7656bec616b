import Foundation
import Testing
import TidingsSQLite

@Suite("Values and binding")
struct ValueTests {
    private static let composed = "\u{E9}"
    private static let decomposed = "e\u{301}"

    static let values: [SQLiteValue] = [
        .null, 0, 1, -1, .integer(.max), .integer(.min), 0.0, .real(-0.0), 1.5, .real(.infinity), .real(-.infinity),
        .real(.leastNonzeroMagnitude), .real(.greatestFiniteMagnitude), "", "text", .text("a\u{0}b"), .text(composed),
        .text(decomposed), .text("\u{1F600}"), .text("O'Hara"), .malformedText([0xFF, 0x00, 0xC3]),
        .malformedText([0xED, 0xA0, 0x80]), .blob([]), .blob([0]), .blob([0, 255, 39]),
    ]

    @Test("every value comes back as it was bound", arguments: values)
    func roundTrip(value: SQLiteValue) throws {
        let database = try Database.memory("CREATE TABLE t(v)")
        try database.execute("INSERT INTO t VALUES (?)", value)
        #expect(try database.rows("SELECT v FROM t") == [[value]])
    }

    @Test(
        "a value is stored in its own storage class",
        arguments: [
            (.null, "null"), (7, "integer"), (7.0, "real"), ("", "text"), (.malformedText([255]), "text"),
            (.blob([]), "blob"),
        ] as [(SQLiteValue, String)])
    func storageClasses(value: SQLiteValue, name: String) throws {
        let database = try Database.memory()
        #expect(try database.first("SELECT typeof(?)", value) == name)
    }

    @Test("NaN is stored as NULL")
    func notANumber() throws {
        #expect(try Database.memory().rows("SELECT ?", Double.nan) == [[.null]])
    }

    @Test("a blob of ten megabytes and text of ten megabytes come back whole")
    func large() throws {
        let database = try Database.memory("CREATE TABLE t(b, s)")
        let bytes = [UInt8]((0..<10_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
        let text = String(repeating: "é7", count: 3_333_333)
        try database.execute("INSERT INTO t VALUES (?, ?)", bytes, text)
        #expect(try database.first("SELECT b FROM t") == bytes)
        #expect(try database.first("SELECT s FROM t") == text)
    }

    @Test("Swift types are bound and read as themselves")
    func swiftTypes() throws {
        let database = try Database.memory()
        #expect(try database.first("SELECT ?", Int64.min) == Int64.min)
        #expect(try database.first("SELECT ?", Int.max) == Int.max)
        #expect(try database.first("SELECT ?", true) == true)
        #expect(try database.first("SELECT ?", false) == false)
        #expect(try database.first("SELECT ?", 1.25) == 1.25)
        #expect(try database.first("SELECT ?", 3) == 3.0)
        #expect(try database.first("SELECT ?", "x") == "x")
        #expect(try database.first("SELECT ?", [1, 2] as [UInt8]) == [1, 2] as [UInt8])
        #expect(try database.first("SELECT ?", Int?.none, as: Int?.self) == .some(.none))
        #expect(try database.first("SELECT ?", Int?.some(4), as: Int?.self) == 4)
        let uuid = UUID()
        #expect(try database.first("SELECT ?", uuid) == uuid)
        #expect(try database.first("SELECT ?", uuid) == uuid.uuidString)
    }

    @Test("a date is text to the microsecond, which SQLite's functions understand")
    func dates() throws {
        let database = try Database.memory()
        let date = Date(microsecondsSince1970: 1_796_011_587_123_456)
        #expect(try database.first("SELECT ?", date) == "2026-11-30T04:06:27.123456Z")
        #expect(try database.first("SELECT ?", date) == date)
        #expect(date.microsecondsSince1970 == 1_796_011_587_123_456)
        #expect(try database.first("SELECT unixepoch(?)", date) == 1_796_011_587)
    }

    @Test("a date out of range is held to the range")
    func extremeDates() throws {
        #expect(Date(timeIntervalSince1970: 1e300).microsecondsSince1970 == .max)
        #expect(Date(timeIntervalSince1970: -1e300).microsecondsSince1970 == .min)
        let database = try Database.memory()
        #expect(
            try database.first("SELECT ?", Date(timeIntervalSince1970: -1e300)) == "-290308-12-21T19:59:05.224192Z")
    }

    @Test("reading as a type that does not fit names the column and what it holds")
    func mismatches() throws {
        let database = try Database.memory()
        func message<Value: SQLiteReadable>(_ value: SQLiteValue, as type: Value.Type) -> String? {
            let error = sqliteError { try database.first("SELECT ? AS v", value, as: type) }
            #expect(error?.code == .mismatch)
            return error?.message
        }
        #expect(message("1", as: Int.self) == "column v holds text, not an integer")
        #expect(message(1.0, as: Int64.self) == "column v holds real, not an integer")
        #expect(message(.null, as: Bool.self) == "column v holds null, not an integer")
        #expect(message("1", as: Double.self) == "column v holds text, not a number")
        #expect(message(.blob([1]), as: String.self) == "column v holds blob, not text in valid UTF-8")
        #expect(message(.malformedText([255]), as: String.self) == "column v holds text, not text in valid UTF-8")
        #expect(message("1", as: [UInt8].self) == "column v holds text, not a blob")
        #expect(message("1", as: UUID.self) == "column v holds text, not a UUID as text")
        #expect(message("yesterday", as: Date.self) == "column v holds text, not a time as RFC 3339 text")
    }

    @Test("a row answers by index and by name, and refuses what it does not have")
    func rows() throws {
        let database = try Database.memory()
        _ = try database.query("SELECT 1 AS a, 'x' AS b, NULL AS c") { (row) throws in
            #expect(row.count == 3)
            #expect(try row.get(0) == 1)
            #expect(try row.get("b") == "x")
            #expect(try row.get("c", as: String?.self) == nil)
            #expect(row.values == [1, "x", nil])
            #expect((0..<3).map(row.storageClass(at:)) == [.integer, .text, .null])
            for index in [-1, 3] {
                let error = sqliteError { try row.get(index, as: Int.self) }
                #expect(error?.code == .range)
                #expect(error?.message == "no column \(index): the row has 3")
            }
            let error = sqliteError { try row.get("d", as: Int.self) }
            #expect(error?.message == "no column d in the result")
        }
    }

    @Test("the bytes of a value are lent as they are")
    func bytes() throws {
        let database = try Database.memory()
        let found = try database.query("SELECT 'añ', x'00ff', NULL, '', x'', 12") { row in
            (0..<6).map { unsafe row.withBytes(at: $0) { unsafe Array($0) } }
        }
        #expect(found == [[[97, 0xC3, 0xB1], [0, 255], [], [], [], [49, 50]]])
    }
}

@Suite("Equality of values")
struct ValueEqualityTests {
    @Test(
        "values that SQLite stores differently are different",
        arguments: [
            (1, 1.0), (0.0, .real(-0.0)), (.null, 0), (.null, ""), ("a", .blob([97])), ("", .blob([])),
            ("\u{E9}", "e\u{301}"), (.malformedText([255]), .blob([255])), (.text("a\u{0}"), "a"),
        ] as [(SQLiteValue, SQLiteValue)])
    func different(left: SQLiteValue, right: SQLiteValue) {
        #expect(left != right)
        #expect(Set([left, right]).count == 2)
    }

    @Test("a value equals itself and hashes alike", arguments: ValueTests.values)
    func reflexive(value: SQLiteValue) {
        #expect(value == value)
        #expect(Set([value, value]).count == 1)
        #expect(value.isNull == (value == .null))
    }

    @Test("NaN equals itself by its bits")
    func notANumber() {
        #expect(SQLiteValue.real(.nan) == .real(.nan))
    }

    @Test("bytes make text where they are valid UTF-8, and are kept where they are not")
    func textBytes() {
        #expect(SQLiteValue(textBytes: [0x61, 0x00, 0xC3, 0xA9]) == .text("a\u{0}\u{E9}"))
        #expect(SQLiteValue(textBytes: [] as [UInt8]) == .text(""))
        #expect(SQLiteValue(textBytes: [0x61, 0xC3]) == .malformedText([0x61, 0xC3]))
        #expect(SQLiteValue(textBytes: [0xC0, 0x80]) == .malformedText([0xC0, 0x80]))
    }
}
