/// How far the transactions of a publisher's own origins are published: without a broker, a store or a clock.
///
/// Transactions come in the order of their sequences; the broker settles them in any order.
struct PublishLedger {
    private struct Entry {
        let sequence: Int64
        let origin: String
        var isSettled = false
    }

    /// From the first unsettled one on.
    private var entries: [Entry] = []
    /// By origin, what is confirmed before the entries. Only of origins that were ever met.
    private var confirmed: [String: Int64]
    /// Everything up to here has been looked at.
    private(set) var readThrough: Int64

    /// Begins after a sequence, with what was confirmed by origin before.
    init(after sequence: Int64, confirmed: [String: Int64] = [:]) {
        readThrough = sequence
        self.confirmed = confirmed
    }

    /// How many are on their way.
    private(set) var pending = 0

    /// Every own transaction up to here is settled.
    var settledThrough: Int64 { entries.first.map { $0.sequence - 1 } ?? readThrough }

    /// True where a transaction is settled already, by a run before this.
    func isConfirmed(_ sequence: Int64, _ origin: String) -> Bool { sequence <= confirmed[origin] ?? 0 }

    /// A transaction is about to be published.
    mutating func add(_ sequence: Int64, _ origin: String) {
        entries.append(Entry(sequence: sequence, origin: origin))
        pending += 1
    }

    /// There is nothing more to add up to here.
    mutating func read(through sequence: Int64) { readThrough = max(readThrough, sequence) }

    /// The broker has confirmed a transaction, or nobody wanted it.
    mutating func settle(_ sequence: Int64) {
        guard let index = index(of: sequence), !entries[index].isSettled else { return }
        entries[index].isSettled = true
        pending -= 1
    }

    /// Forgets what is settled in front; to be called now and then.
    mutating func advance() {
        let count = entries.prefix { $0.isSettled }.count
        for entry in entries[..<count] { confirmed[entry.origin] = entry.sequence }
        entries.removeFirst(count)
    }

    /// By origin, the largest sequence up to which everything of that origin is settled.
    func confirmedThrough() -> [String: Int64] {
        var result = confirmed
        var blocked: Set<String> = []
        for entry in entries where !blocked.contains(entry.origin) {
            if entry.isSettled { result[entry.origin] = entry.sequence } else { blocked.insert(entry.origin) }
        }
        return result
    }

    /// Forgets origins that are no more.
    mutating func keepOnly(_ origins: Set<String>) {
        let busy = Set(entries.map(\.origin))
        confirmed = confirmed.filter { origins.contains($0.key) || busy.contains($0.key) }
    }

    private func index(of sequence: Int64) -> Int? {
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].sequence < sequence { low = middle + 1 } else { high = middle }
        }
        return low < entries.count && entries[low].sequence == sequence ? low : nil
    }
}
