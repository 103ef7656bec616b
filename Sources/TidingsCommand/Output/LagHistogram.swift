/// How long transactions took from their commit to having been merged, counted in classes that are a tenth wide.
struct LagHistogram: Sendable, Codable {
    /// Transactions by class: class n holds lags up to 1.1ⁿ microseconds.
    private(set) var counts: [Int: Int] = [:]
    private(set) var total = 0

    /// Adds a lag in microseconds; a negative one, of a clock that was set back, counts as none.
    mutating func add(microseconds: Int64) {
        counts[Self.class(of: microseconds), default: 0] += 1
        total += 1
    }

    /// Adds what another has counted.
    mutating func add(_ other: LagHistogram) {
        counts.merge(other.counts, uniquingKeysWith: +)
        total += other.total
    }

    /// The lag that a share of the transactions did not exceed, to a tenth; nil where there are none.
    func quantile(_ share: Double) -> Duration? {
        guard total > 0 else { return nil }
        var rest = Int((share * Double(total)).rounded(.up))
        for (number, count) in counts.sorted(by: { $0.key < $1.key }) {
            rest -= count
            if rest <= 0 { return .microseconds(Int64(Self.bounds[number])) }
        }
        return nil
    }

    /// The classes' upper bounds in microseconds; the last is half a day.
    private static let bounds: [Double] = {
        var bounds = [1.0]
        while bounds[bounds.count - 1] < 43_200_000_000 { bounds.append(bounds[bounds.count - 1] * 1.1) }
        return bounds
    }()

    private static func `class`(of microseconds: Int64) -> Int {
        let index = bounds.firstIndex { $0 >= Double(microseconds) }
        return index ?? bounds.count - 1
    }
}
