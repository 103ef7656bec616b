/// Durations as a configuration has them: a whole number and its unit.
enum DurationText {
    private static let units: [(name: String, milliseconds: Int64)] = [
        ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1),
    ]

    /// Reads `250ms`; nil where it is none.
    static func parse(_ text: String) -> Duration? {
        guard let (number, unit) = Unit.split(text), let factor = units.first(where: { $0.name == unit }) else {
            return nil
        }
        let (milliseconds, overflow) = number.multipliedReportingOverflow(by: factor.milliseconds)
        return overflow ? nil : .milliseconds(milliseconds)
    }

    /// The duration in the largest unit that divides it.
    static func text(_ duration: Duration) -> String {
        let (seconds, attoseconds) = duration.components
        let milliseconds = seconds * 1000 + attoseconds / 1_000_000_000_000_000
        guard milliseconds != 0, let unit = units.first(where: { milliseconds % $0.milliseconds == 0 }) else {
            return "0s"
        }
        return "\(milliseconds / unit.milliseconds)\(unit.name)"
    }
}

/// Numbers of bytes as a configuration has them: a whole number and its unit.
enum ByteSize {
    private static let units: [(name: String, bytes: Int64)] = [("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)]

    /// Reads `256KiB`; nil where it is none.
    static func parse(_ text: String) -> Int? {
        guard let (number, unit) = Unit.split(text), let factor = units.first(where: { $0.name == unit }) else {
            return nil
        }
        let (bytes, overflow) = number.multipliedReportingOverflow(by: factor.bytes)
        return overflow ? nil : Int(bytes)
    }

    /// The size in the largest unit that divides it.
    static func text(_ bytes: Int) -> String {
        guard bytes != 0, let unit = units.first(where: { Int64(bytes) % $0.bytes == 0 }) else { return "0B" }
        return "\(Int64(bytes) / unit.bytes)\(unit.name)"
    }
}

private enum Unit {
    /// The digits that a text begins with, and the rest.
    static func split(_ text: String) -> (Int64, String)? {
        let digits = text.utf8.prefix { 0x30...0x39 ~= $0 }
        guard let number = Int64(String(decoding: digits, as: UTF8.self)) else { return nil }
        return (number, String(decoding: text.utf8.dropFirst(digits.count), as: UTF8.self))
    }
}
