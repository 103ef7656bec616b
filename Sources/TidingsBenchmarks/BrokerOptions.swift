/// What the command line asks for of the benchmarks that need a broker.
struct BrokerOptions: Sendable {
    /// Where the broker is; nil is a private one, started for the run.
    var url: String?
    var queueTypes = QueueType.allCases
    /// Bytes of a body.
    var sizes = [200, 1024]
    var windows = [1, 100, 1000]
    /// Messages of a slice with the widest window.
    var messages = 20_000

    /// The messages of a slice: fewer where each waits longer, so that all slices take about as long.
    func messages(window: Int) -> Int {
        switch window {
        case ..<10: max(1, messages / 10)
        case ..<500: max(1, messages / 2)
        default: messages
        }
    }

    /// Takes an option, and its value from what follows; false where it is none of these.
    mutating func take(_ word: String, _ rest: inout ArraySlice<String>) throws(BenchmarkError) -> Bool {
        switch word {
        case "--broker": url = try BenchmarkOptions.value(word, &rest)
        case "--queue": queueTypes = [try Self.queueType(&rest)]
        case "--size": sizes = [try BenchmarkOptions.number(word, &rest, from: 8)]
        case "--window": windows = [try BenchmarkOptions.number(word, &rest)]
        case "--messages": messages = try BenchmarkOptions.number(word, &rest)
        default: return false
        }
        return true
    }

    private static func queueType(_ rest: inout ArraySlice<String>) throws(BenchmarkError) -> QueueType {
        let text = try BenchmarkOptions.value("--queue", &rest)
        guard let type = QueueType(rawValue: text) else {
            throw BenchmarkError("--queue needs classic, quorum or transient, not \(text)")
        }
        return type
    }
}
