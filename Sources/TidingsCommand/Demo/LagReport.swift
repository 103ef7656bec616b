import FoundationEssentials
import PersistentHistory

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

/// What `tidings consume --report FILE` writes, about once a second and at its end.
struct ConsumeReport: Sendable, Codable {
    /// The transactions merged since the process began, and their lags.
    var lag = LagHistogram()
    /// The sequence of the last one.
    var sequence: Int64 = 0

    /// Replaces the file, so that whoever reads it meets a whole report.
    func write(to path: String) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        do {
            try encoder.encode(self).write(to: URL(filePath: path), options: .atomic)
        } catch {
            throw CommandError("\(path) cannot be written: check the path, and this user's permission")
        }
    }

    static func read(_ path: String) throws -> ConsumeReport {
        guard let data = FileManager.default.contents(atPath: path),
            let report = try? JSONDecoder().decode(ConsumeReport.self, from: data)
        else { throw CommandError("\(path) is no report of `tidings consume`") }
        return report
    }
}
