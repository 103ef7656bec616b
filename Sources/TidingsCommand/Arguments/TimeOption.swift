import FoundationEssentials
import PersistentHistory
import TidingsSQLite

/// Reads a time: RFC 3339, or an age such as `7d`, `12h`, `30m`, `45s`.
enum TimeOption {
    private static let secondsOfUnit: [Character: Double] = ["d": 86_400, "h": 3600, "m": 60, "s": 1]

    static func parse(_ text: String, of name: String, now: Date) throws(UsageError) -> Date {
        if let time = RFC3339.microseconds(text) { return Date(microsecondsSince1970: time) }
        guard let seconds = text.last.flatMap({ secondsOfUnit[$0] }), let number = UInt32(text.dropLast()),
            !text.hasPrefix("+")
        else {
            throw UsageError(
                "\(name) expects a time such as 2026-11-30T12:00:00Z, or an age such as 7d, 12h, 30m or 45s, not \(text)"
            )
        }
        return now.addingTimeInterval(-Double(number) * seconds)
    }
}
