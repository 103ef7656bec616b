import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("RFC 3339")
struct RFC3339Tests {
    @Test(
        "known times are written as known text",
        arguments: [
            (0, "1970-01-01T00:00:00.000000Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (1_796_011_587_123_456, "2026-11-30T04:06:27.123456Z"),
            (-62_167_219_200_000_000, "0000-01-01T00:00:00.000000Z"),
            (253_402_300_799_999_999, "9999-12-31T23:59:59.999999Z"),
            (-62_167_219_200_000_001, "-000001-12-31T23:59:59.999999Z"),
            (253_402_300_800_000_000, "+010000-01-01T00:00:00.000000Z"),
            (.max, "+294247-01-10T04:00:54.775807Z"),
            (.min, "-290308-12-21T19:59:05.224192Z"),
        ] as [(Int64, String)])
    func known(time: Int64, text: String) {
        #expect(RFC3339.string(microseconds: time) == text)
        #expect(RFC3339.microseconds(text) == time)
    }

    @Test("random times come back as they were", arguments: [1, 2, 3] as [UInt64])
    func roundTrip(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let years = Int64(-62_167_219_200_000_000)...253_402_300_799_999_999
        for _ in 0..<20_000 {
            for time in [Int64.random(in: .min ... .max, using: &generator), .random(in: years, using: &generator)] {
                let text = RFC3339.string(microseconds: time)
                guard RFC3339.microseconds(text) == time else {
                    Issue.record(
                        "\(time) was written as \(text), read as \(String(describing: RFC3339.microseconds(text)))")
                    return
                }
            }
        }
    }

    @Test("times agree with SQLite's own calendar", arguments: [4, 5] as [UInt64])
    func agreesWithSQLite(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let database = try Database.memory()
        for _ in 0..<2000 {
            let seconds = Int64.random(in: -62_167_219_200...253_402_300_799, using: &generator)
            let expected = try database.first(
                "SELECT strftime('%Y-%m-%dT%H:%M:%S.000000Z', ?, 'unixepoch')", seconds, as: String.self)
            #expect(RFC3339.string(microseconds: seconds * 1_000_000) == expected)
        }
    }

    @Test(
        "other spellings of a time are read",
        arguments: [
            ("2026-11-30T04:06:27Z", 1_796_011_587_000_000),
            ("2026-11-30t04:06:27z", 1_796_011_587_000_000),
            ("2026-11-30 04:06:27Z", 1_796_011_587_000_000),
            ("2026-11-30T04:06:27.5Z", 1_796_011_587_500_000),
            ("2026-11-30T04:06:27.1234569Z", 1_796_011_587_123_456),
            ("2026-11-30T06:06:27+02:00", 1_796_011_587_000_000),
            ("2026-11-29T22:36:27-05:30", 1_796_011_587_000_000),
            ("1969-12-31T23:59:59.25Z", -750_000),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000_000),
        ] as [(String, Int64)])
    func spellings(text: String, time: Int64) {
        #expect(RFC3339.microseconds(text) == time)
    }

    @Test(
        "what is not RFC 3339 is refused",
        arguments: [
            "", "2026-11-30", "2026-11-30T04:06Z", "2026-11-30T04:06:27", "2026-11-30T04:06:27.Z",
            "2026-11-30T04:06:27Z ", " 2026-11-30T04:06:27Z", "2026-11-30T04:06:27+2:00", "2026-11-30T04:06:27+24:00",
            "2026-11-30T04:06:27+02:60", "2026-11-30T04:06:27+0200", "2026-13-30T04:06:27Z", "2026-00-30T04:06:27Z",
            "2026-11-31T04:06:27Z", "2026-11-00T04:06:27Z", "2026-02-29T00:00:00Z", "1900-02-29T00:00:00Z",
            "2026-11-30T24:00:00Z", "2026-11-30T04:60:27Z", "2026-11-30T04:06:61Z", "26-11-30T04:06:27Z",
            "2026/11/30T04:06:27Z", "2026-11-30X04:06:27Z", "2026-11-30T04:06:27UTC", "2026-11-30T04:06:27.1a5Z",
            "２０２６-11-30T04:06:27Z", "+2026-11-30T04:06:27Z", "10000-01-01T00:00:00Z", "+009999-01-01T00:00:00Z",
            "-000000-01-01T00:00:00Z", "+294247-01-10T04:00:54.775808Z", "-290308-12-21T19:59:05.224191Z",
            "+999999-12-31T23:59:59Z", "-999999-01-01T00:00:00Z",
        ])
    func rejects(text: String) {
        #expect(RFC3339.microseconds(text) == nil)
    }
}
