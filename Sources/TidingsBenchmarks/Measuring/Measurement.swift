/// One row of the result: a figure, its floor, and the interval of their ratio.
struct Measurement: Encodable, Sendable {
    enum Verdict: String, Encodable {
        case meets
        case misses
        /// The interval holds the goal.
        case undecided
    }

    /// On which side of the goal the ratio should lie.
    enum Bound: String, Encodable {
        case atMost
        case atLeast
    }

    let row: String
    let unit: String
    let median: Double
    let floor: Double
    /// The median of the pairs' ratios; of memory, the difference.
    let ratio: Double
    let low: Double
    let high: Double
    let goal: Double?
    let bound: Bound?
    let verdict: Verdict?
}

/// Interleaved pairs of a measurement and its floor.
struct Pairs: Sendable {
    /// How a pair becomes one number.
    enum Comparison {
        case ratio
        case difference
    }

    private var floors: [Double] = []
    private var values: [Double] = []

    mutating func add(floor: Double, value: Double) {
        floors.append(floor)
        values.append(value)
    }

    /// The row of these pairs. No more than the goal is good, or no less.
    func measurement(
        _ row: String, _ unit: String, goal: Double? = nil, bound: Measurement.Bound = .atMost,
        comparison: Comparison = .ratio
    ) -> Measurement {
        let compared = zip(values, floors).map { value, floor in
            comparison == .ratio ? value / floor : value - floor
        }
        let (low, high) = Statistics.interval(compared)
        return Measurement(
            row: row, unit: unit, median: Statistics.median(values), floor: Statistics.median(floors),
            ratio: Statistics.median(compared), low: low, high: high, goal: goal,
            bound: goal.map { _ in bound }, verdict: goal.map { Self.verdict(low, high, $0, bound) })
    }

    private static func verdict(
        _ low: Double, _ high: Double, _ goal: Double, _ bound: Measurement.Bound
    ) -> Measurement.Verdict {
        switch bound {
        case .atMost: high <= goal ? .meets : low > goal ? .misses : .undecided
        case .atLeast: low >= goal ? .meets : high < goal ? .misses : .undecided
        }
    }
}

/// Statistics without an assumption on how measurements are distributed.
enum Statistics {
    static func median(_ values: [Double]) -> Double { quantile(0.5, values) }

    /// The value below which the given share lies, interpolated.
    static func quantile(_ share: Double, _ values: [Double]) -> Double {
        let sorted = values.sorted()
        guard let last = sorted.last else { return .nan }
        let position = share * Double(sorted.count - 1)
        let index = Int(position)
        guard index + 1 < sorted.count else { return last }
        return sorted[index] + (sorted[index + 1] - sorted[index]) * (position - Double(index))
    }

    /// An interval that holds the true median with at least 95 %, by order statistics; all there is below six values.
    static func interval(_ values: [Double]) -> (low: Double, high: Double) {
        let sorted = values.sorted()
        guard let first = sorted.first, let last = sorted.last else { return (.nan, .nan) }
        let count = sorted.count
        // The chance that fewer than k + 1 of the values lie below the median.
        var term = 1.0
        for _ in 0..<count { term /= 2 }
        var chance = term
        var rank = 0
        while chance <= 0.025 {
            rank += 1
            term *= Double(count - rank + 1) / Double(rank)
            chance += term
        }
        guard rank > 0 else { return (first, last) }
        return (sorted[rank - 1], sorted[count - rank])
    }
}
