/// What the command line asks for.
struct BenchmarkOptions: Sendable {
    /// The benchmark's name.
    var benchmark = ""
    var printsJSON = false
    var pairs = 31
    /// Where files of measurements without a disk go.
    var directory = "/dev/shm"
    /// Where files of measurements that wait for a disk go.
    var disk = "."
    /// Less work in each measurement, and none of the slowest ones.
    var isQuick = false
    /// The length of the long history that is compared with a short one, and of the one that is purged.
    var historyLength = 1_000_000
    /// The transactions that a consumer is behind.
    var transactions = 100_000
    /// For the benchmarks that need a broker.
    var broker = BrokerOptions()

    static let help = """
        usage: TidingsBenchmarks <benchmark> [--json] [--pairs N] [--directory DIR] [--disk DIR] [--history N] [--quick]
               TidingsBenchmarks publish|consume|roundtrip [--json] [--pairs N] [--broker URL] [--queue TYPE]
                   [--size N] [--window N] [--messages N] [--quick]
               TidingsBenchmarks catchup [--json] [--pairs N] [--directory DIR] [--transactions N] [--quick]
               TidingsBenchmarks latency|pipeline [--json] [--pairs N] [--directory DIR] [--disk DIR] [--broker URL]
                   [--messages N] [--quick]

        Every figure is the median of interleaved pairs of a measurement and of its floor, which calls the C library
        directly, with a 95 % interval of the median of their ratios.

          capture   one-row transactions: tracked against plain, and against plain with one row of the same bytes
          batch     100,000 rows in one transaction, tracked against plain; peak memory
          fetch     reading and decoding history against stepping over the same rows; a long history against a short one
          purge     cleaning under a writer against the same in C
          publish   persistent messages with confirms: rate, processor time, time from publishing to the confirm
          consume   messages that wait in a queue: rate, processor time, time from one delivery to the next
          roundtrip published on one connection and delivered on another: the same, time from publishing to the delivery
          catchup   a consumer far behind, without a broker, to scanning and decoding the same history
          latency   one commit after the other, each published, delivered and merged before the next: time to the
                    durable token, to a commit, two syncs and a round trip
          pipeline  commits as fast as they go: how many are merged in a second, and how long after their commit

          --json            print an array of {row, unit, median, floor, ratio, low, high, goal, bound, verdict}
          --pairs N         pairs of each figure (31)
          --directory DIR   where files go (/dev/shm: no disk takes part)
          --disk DIR        where files go of which every commit is synced (the current directory; none: leave that out)
          --transactions N  transactions that the consumer is behind (100000; with --quick 20000)
          --history N       transactions of the long history (1000000; with --quick 100000)
          --quick           less work, no million-row transactions
          --broker URL      amqp://user:password@host:port/vhost of the broker that is measured with
                            (a private one, started for the run, with its data in the directory of --directory)
          --queue TYPE      classic, quorum or transient (all three)
          --size N          bytes of a message's body (200 and 1024)
          --window N        messages under way (1, 100 and 1000)
          --messages N      messages of a slice with the widest window (20000; with --quick 4000; narrow windows: fewer);
                            commits of a slice of the pipeline; of latency one for each forty
          --help            this text
        """

    /// Reads the words behind the program's name; nil asks for the help.
    init?(_ words: [String]) throws(BenchmarkError) {
        var rest = words[...]
        while let word = rest.popFirst() {
            switch word {
            case "--help", "-h": return nil
            case "--json": printsJSON = true
            case "--quick": isQuick = true
            case "--pairs": pairs = try Self.number(word, &rest)
            case "--transactions": transactions = try Self.number(word, &rest)
            case "--history": historyLength = try Self.number(word, &rest)
            case "--directory": directory = try Self.value(word, &rest)
            case "--disk": disk = try Self.value(word, &rest)
            default:
                if try broker.take(word, &rest) { continue }
                guard benchmark.isEmpty, !word.hasPrefix("-") else { throw BenchmarkError("unknown argument \(word)") }
                benchmark = word
            }
        }
        if isQuick, !words.contains("--history") { historyLength = 100_000 }
        if isQuick, !words.contains("--transactions") { transactions = 20_000 }
        if isQuick, !words.contains("--messages") { broker.messages = 4000 }
    }

    /// The word behind an option.
    static func value(_ option: String, _ rest: inout ArraySlice<String>) throws(BenchmarkError) -> String {
        guard let value = rest.popFirst() else { throw BenchmarkError("\(option) needs a value") }
        return value
    }

    /// The number behind an option.
    static func number(
        _ option: String, _ rest: inout ArraySlice<String>, from least: Int = 1
    ) throws(BenchmarkError) -> Int {
        let text = try value(option, &rest)
        guard let number = Int(text), number >= least else {
            throw BenchmarkError("\(option) needs a number from \(least), not \(text)")
        }
        return number
    }
}

/// Why a benchmark could not run.
struct BenchmarkError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
