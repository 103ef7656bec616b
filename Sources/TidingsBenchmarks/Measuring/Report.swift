import Foundation

/// How results are shown.
enum Report {
    static func json(_ measurements: [Measurement]) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        encoder.nonConformingFloatEncodingStrategy = .convertToString(
            positiveInfinity: "inf", negativeInfinity: "-inf", nan: "nan")
        return String(decoding: try encoder.encode(measurements), as: UTF8.self)
    }

    static func table(_ measurements: [Measurement]) -> String {
        let heads = ["row", "unit", "median", "floor", "ratio", "95 % interval", "goal", "verdict"]
        let lines = [heads] + measurements.map(cells)
        let widths = heads.indices.map { column in lines.map { $0[column].count }.max() ?? 0 }
        return lines.map { line in
            line.indices.map { column in
                let padding = String(repeating: " ", count: widths[column] - line[column].count)
                return column < 2 || column == 7 ? line[column] + padding : padding + line[column]
            }.joined(separator: "  ")
        }.joined(separator: "\n")
    }

    private static func cells(_ measurement: Measurement) -> [String] {
        [
            measurement.row, measurement.unit, number(measurement.median), number(measurement.floor),
            number(measurement.ratio), "\(number(measurement.low)) … \(number(measurement.high))",
            goal(measurement), measurement.verdict?.rawValue ?? "",
        ]
    }

    private static func goal(_ measurement: Measurement) -> String {
        guard let goal = measurement.goal else { return "" }
        return "\(measurement.bound == .atLeast ? "≥" : "≤") \(number(goal))"
    }

    private static func number(_ value: Double) -> String {
        String(format: abs(value) >= 1000 ? "%.0f" : abs(value) >= 100 ? "%.1f" : "%.3f", value)
    }
}
