internal import PersistentHistory

/// Who has to publish what, and how far everything is published: without a broker, a store or a clock of its own.
///
/// Holds the transactions from the first unconfirmed one on, at most a bound of them: while it is full, the relay looks
/// no further. A publisher is taken for dead where its row is missing, says so, or has not changed for the grace period
/// while something of it was waiting.
struct RelayLedger {
    private enum State: UInt8 {
        /// Its own publisher has to publish it.
        case waiting
        /// The relay publishes it.
        case claimed
        case confirmed
    }

    private struct Entry {
        let transaction: OriginOfTransaction
        var state = State.waiting
    }

    /// What is known of an origin's publisher.
    private struct Watch {
        var record: PublisherRecord?
        var changedAt: ContinuousClock.Instant
        /// How many of its transactions wait, and since when some do.
        var waiting = 0
        var waitingSince: ContinuousClock.Instant

        func isDead(at now: ContinuousClock.Instant, grace: Duration) -> Bool {
            guard let record, record.heartbeat != 0 else { return true }
            return now - max(changedAt, waitingSince) >= grace
        }
    }

    private let grace: Duration
    private let capacity: Int
    private var entries: [Entry] = []
    private var watches: [String: Watch] = [:]
    /// Everything up to here is confirmed.
    private(set) var publishedThrough: HistoryToken

    /// Begins after a token up to which everything is confirmed.
    init(after token: HistoryToken, grace: Duration, capacity: Int = 20_000) {
        publishedThrough = token
        self.grace = grace
        self.capacity = capacity
    }

    /// The last transaction that is known.
    var end: HistoryToken { entries.last?.transaction.token ?? publishedThrough }
    /// How many more may be added.
    var room: Int { capacity - entries.count }

    /// Adds the transactions that follow the last.
    mutating func append(_ transactions: [OriginOfTransaction], at now: ContinuousClock.Instant) {
        for transaction in transactions {
            var entry = Entry(transaction: transaction)
            var watch = watches[transaction.origin] ?? Watch(record: nil, changedAt: now, waitingSince: now)
            if transaction.token.sequence <= watch.record?.confirmed ?? 0 {
                entry.state = .confirmed
            } else {
                if watch.waiting == 0 { watch.waitingSince = now }
                watch.waiting += 1
                watches[transaction.origin] = watch
            }
            entries.append(entry)
        }
        advance()
    }

    /// Takes in the publishers' rows, all of them.
    mutating func update(_ records: [PublisherRecord], at now: ContinuousClock.Instant) {
        var isNew = false
        var missing = Set(watches.keys)
        for record in records {
            missing.remove(record.origin)
            guard watches[record.origin]?.record != record else { continue }
            isNew = isNew || record.confirmed > watches[record.origin]?.record?.confirmed ?? 0
            var watch = watches[record.origin] ?? Watch(record: nil, changedAt: now, waitingSince: now)
            (watch.record, watch.changedAt) = (record, now)
            watches[record.origin] = watch
        }
        for origin in missing { watches[origin]?.record = nil }
        if isNew { confirmByRecords() }
        for origin in missing where watches[origin]?.waiting == 0 { watches[origin] = nil }
    }

    private mutating func confirmByRecords() {
        for index in entries.indices where entries[index].state != .confirmed {
            let transaction = entries[index].transaction
            guard transaction.token.sequence <= watches[transaction.origin]?.record?.confirmed ?? 0 else { continue }
            if entries[index].state == .waiting { watches[transaction.origin]?.waiting -= 1 }
            entries[index].state = .confirmed
        }
        advance()
    }

    /// Takes over what nobody else publishes, the oldest first: the transactions, and the token before the first.
    mutating func claim(_ limit: Int, at now: ContinuousClock.Instant) -> (after: HistoryToken, [OriginOfTransaction])?
    {
        let dead = Set(watches.filter { $1.waiting > 0 && $1.isDead(at: now, grace: grace) }.keys)
        guard !dead.isEmpty else { return nil }
        var claimed: [OriginOfTransaction] = []
        var before: HistoryToken?
        for index in entries.indices {
            let transaction = entries[index].transaction
            guard entries[index].state == .waiting, dead.contains(transaction.origin) else { continue }
            if claimed.isEmpty { before = index == 0 ? publishedThrough : entries[index - 1].transaction.token }
            entries[index].state = .claimed
            watches[transaction.origin]?.waiting -= 1
            claimed.append(transaction)
            if claimed.count == limit { break }
        }
        forgetStrangers(claimed)
        return before.map { ($0, claimed) }
    }

    /// Origins without a row are remembered only while something of them waits.
    private mutating func forgetStrangers(_ transactions: [OriginOfTransaction]) {
        for origin in Set(transactions.map(\.origin)) {
            if let watch = watches[origin], watch.record == nil, watch.waiting == 0 { watches[origin] = nil }
        }
    }

    /// When a publisher that is alive will be taken for dead, if nothing changes.
    var nextDeath: ContinuousClock.Instant? {
        watches.values.filter { $0.waiting > 0 }.map { max($0.changedAt, $0.waitingSince) + grace }.min()
    }

    /// What was claimed is confirmed, or nobody wanted it.
    mutating func settle(_ sequences: [Int64]) {
        for sequence in sequences {
            guard let index = index(of: sequence), entries[index].state == .claimed else { continue }
            entries[index].state = .confirmed
        }
        advance()
    }

    /// What was claimed could not be published: it is to be claimed again.
    mutating func release(_ sequences: [Int64], at now: ContinuousClock.Instant) {
        for sequence in sequences {
            guard let index = index(of: sequence), entries[index].state == .claimed else { continue }
            entries[index].state = .waiting
            let origin = entries[index].transaction.origin
            watches[origin, default: Watch(changedAt: now, waitingSince: now)].waiting += 1
        }
    }

    /// Publishers that have nothing left and have said nothing for a time.
    func silent(for time: Duration, at now: ContinuousClock.Instant) -> [PublisherRecord] {
        watches.values.compactMap { watch in
            guard let record = watch.record, watch.waiting == 0, record.confirmed <= publishedThrough.sequence,
                now - watch.changedAt >= time
            else { return nil }
            return record
        }
    }

    private mutating func advance() {
        let count = entries.prefix { $0.state == .confirmed }.count
        guard count > 0 else { return }
        publishedThrough = entries[count - 1].transaction.token
        entries.removeFirst(count)
    }

    /// Sequences have no holes.
    private func index(of sequence: Int64) -> Int? {
        guard let first = entries.first?.transaction.token.sequence else { return nil }
        let index = Int(sequence - first)
        return entries.indices.contains(index) ? index : nil
    }
}
