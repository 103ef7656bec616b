/// Times as text: `2026-11-30T04:06:27.123456Z`, always in UTC.
///
/// Years that RFC 3339 has no room for, before 0 and after 9999, are written with their sign and six digits
/// (`-000001-12-31T23:59:59.999999Z`), so that every time that a clock may show can be read back.
///
/// [RFC 3339](https://www.rfc-editor.org/rfc/rfc3339)
public enum RFC3339 {
    /// The text of a time in microseconds since 1970, with six digits of fraction.
    public static func string(microseconds time: Int64) -> String {
        let seconds = floorDivide(time, 1_000_000)
        let day = floorDivide(seconds, 86_400)
        let second = seconds - day * 86_400
        let (year, month, dayOfMonth) = civil(day)
        let yearText =
            (0...9999).contains(year) ? padded(year, 4) : "\(year < 0 ? "-" : "+")\(padded(year.magnitude, 6))"
        let date = "\(yearText)-\(padded(month, 2))-\(padded(dayOfMonth, 2))"
        let clock = "\(padded(second / 3600, 2)):\(padded(second / 60 % 60, 2)):\(padded(second % 60, 2))"
        return "\(date)T\(clock).\(padded(floorRemainder(time, 1_000_000), 6))Z"
    }

    /// The time that the text names, in microseconds since 1970; nil where it is not RFC 3339.
    ///
    /// Digits of fraction past the sixth are dropped. An offset such as `+02:00` is taken into account.
    public static func microseconds(_ text: String) -> Int64? {
        var scanner = Scanner(bytes: Array(text.utf8))
        guard let year = scanner.year(), scanner.skip("-"), let month = scanner.number(2), scanner.skip("-"),
            let day = scanner.number(2), scanner.skip("T") || scanner.skip("t") || scanner.skip(" "),
            let hour = scanner.number(2), scanner.skip(":"), let minute = scanner.number(2), scanner.skip(":"),
            let second = scanner.number(2), (1...12).contains(month), (1...daysInMonth(month, year)).contains(day),
            hour < 24, minute < 60, second < 61
        else { return nil }
        guard let fraction = scanner.fraction(), let offset = scanner.offset(), scanner.isAtEnd else { return nil }
        let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset * 60
        // The earliest times fit although their whole second, rounded down, does not: counted from the second after.
        let base = seconds < 0 ? seconds + 1 : seconds
        let (microseconds, isTooFar) = base.multipliedReportingOverflow(by: 1_000_000)
        let (time, isOut) = microseconds.addingReportingOverflow(seconds < 0 ? fraction - 1_000_000 : fraction)
        return isTooFar || isOut ? nil : time
    }

    private struct Scanner {
        let bytes: [UInt8]
        var position = 0

        var isAtEnd: Bool { position == bytes.count }

        /// Four digits, or a sign and six of a year that does not fit in four.
        mutating func year() -> Int64? {
            if skip("+") { return number(6).flatMap { $0 > 9999 ? $0 : nil } }
            if skip("-") { return number(6).flatMap { $0 > 0 ? -$0 : nil } }
            return number(4)
        }

        mutating func number(_ digits: Int) -> Int64? {
            guard position + digits <= bytes.count else { return nil }
            var value: Int64 = 0
            for byte in bytes[position..<position + digits] {
                guard (48...57).contains(byte) else { return nil }
                value = value * 10 + Int64(byte - 48)
            }
            position += digits
            return value
        }

        mutating func skip(_ character: Unicode.Scalar) -> Bool {
            guard position < bytes.count, bytes[position] == UInt8(character.value) else { return false }
            position += 1
            return true
        }

        /// Microseconds; 0 where there is no fraction, nil where a point has no digits behind it.
        mutating func fraction() -> Int64? {
            guard skip(".") else { return 0 }
            var value: Int64 = 0
            var digits = 0
            while position < bytes.count, (48...57).contains(bytes[position]) {
                if digits < 6 { value = value * 10 + Int64(bytes[position] - 48) }
                digits += 1
                position += 1
            }
            guard digits > 0 else { return nil }
            for _ in min(digits, 6)..<6 { value *= 10 }
            return value
        }

        /// Minutes east of UTC.
        mutating func offset() -> Int64? {
            if skip("Z") || skip("z") { return 0 }
            let sign: Int64
            if skip("+") {
                sign = 1
            } else if skip("-") {
                sign = -1
            } else {
                return nil
            }
            guard let hours = number(2), skip(":"), let minutes = number(2), hours < 24, minutes < 60 else {
                return nil
            }
            return sign * (hours * 60 + minutes)
        }
    }

    private static func padded(_ value: some BinaryInteger, _ width: Int) -> String {
        let digits = String(value)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }

    private static func floorDivide(_ value: Int64, _ divisor: Int64) -> Int64 {
        value >= 0 ? value / divisor : -((-(value + 1)) / divisor) - 1
    }

    private static func floorRemainder(_ value: Int64, _ divisor: Int64) -> Int64 {
        let remainder = value % divisor
        return remainder < 0 ? remainder + divisor : remainder
    }

    private static func daysInMonth(_ month: Int64, _ year: Int64) -> Int64 {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    /// Days from 1970-01-01 to a date of the proleptic Gregorian calendar, counting years from March.
    private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
        let shifted = month <= 2 ? year - 1 : year
        let era = floorDivide(shifted, 400)
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * ((month + 9) % 12) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    /// The date that many days after 1970-01-01: the inverse of `days`.
    private static func civil(_ days: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let shifted = days + 719_468
        let era = floorDivide(shifted, 146_097)
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day)
    }
}
