internal import FoundationEssentials
internal import TidingsSQLite

/// How far a reader has come. Each page resumes from it with the same proofs as the first page.
struct PageCursor: Sendable {
    let order: HistoryRequest.Order
    /// Nothing at or before this sequence belongs to the request.
    private let lower: Int64
    /// The last sequence that belongs to it.
    private let upper: Int64
    /// The last transaction looked at, going up; the first, going down. With its nonce it is the proof of lineage.
    private var position: HistoryToken
    /// How far the reader has come: the last transaction looked at, whether it was delivered or not.
    var token: HistoryToken { position }
    /// How many transactions the limit leaves; nil for no limit.
    private(set) var remaining: Int?
    private(set) var isAtEnd: Bool

    /// The cursor of a request's first page, with the token that it starts after proven.
    static func first(of request: HistoryRequest, _ state: StoreState, _ database: Database) throws -> PageCursor {
        try request.validate()
        let head = try state.head(database)
        let start: HistoryToken
        switch request.start {
        case .beginning:
            start = state.mark
        case .token(let token):
            try state.check(token, database)
            start = token
        case .date(let date):
            start = try lastTransaction(notAfter: date, state, head, database)
        }
        let upper = min(request.through ?? .max, head.sequence)
        let isDescending = request.order == .newestFirst
        return PageCursor(
            order: request.order, lower: start.sequence, upper: upper, position: isDescending ? head : start,
            remaining: request.limit, isAtEnd: start.sequence >= upper || request.limit == 0,
            isDescending: isDescending)
    }

    private init(
        order: HistoryRequest.Order, lower: Int64, upper: Int64, position: HistoryToken, remaining: Int?, isAtEnd: Bool,
        isDescending: Bool
    ) {
        self.order = order
        self.lower = lower
        self.upper = upper
        self.position = position
        self.remaining = remaining
        self.isAtEnd = isAtEnd
        // Going down, the next sequence to look at is the upper bound.
        nextDown = isDescending ? upper : 0
    }

    /// Going down: the next sequence to look at.
    private var nextDown: Int64

    /// The end of the longest prefix of the history that is not later than a date.
    private static func lastTransaction(
        notAfter date: Date, _ state: StoreState, _ head: HistoryToken, _ database: Database
    ) throws -> HistoryToken {
        let sql = "SELECT sequence FROM history_transaction WHERE time > ? ORDER BY sequence LIMIT 1"
        guard let first = try database.first(sql, date.microsecondsSince1970, as: Int64.self) else { return head }
        return try token(at: first - 1, state, database)
    }

    /// Proves that a transaction follows the one looked at before: a hole must never pass for the history.
    func expect(_ sequence: Int64, _ path: String) throws(HistoryError) {
        let expected = order == .oldestFirst ? position.sequence + 1 : nextDown
        guard sequence == expected else { throw Self.missing(expected, path) }
    }

    private static func missing(_ sequence: Int64, _ path: String) -> HistoryError {
        HistoryError(
            .damagedHistory, "\(path): transaction \(sequence) is missing between others: restore a backup")
    }

    private static func token(at sequence: Int64, _ state: StoreState, _ database: Database) throws -> HistoryToken {
        if sequence <= state.purgedSequence { return state.mark }
        let sql = "SELECT nonce FROM history_transaction WHERE sequence = ?"
        guard let nonce = try database.first(sql, sequence, as: Int64.self) else {
            throw missing(sequence, database.path)
        }
        return state.token(sequence, UInt64(bitPattern: nonce))
    }

    /// The cursor, proven anew in the transaction of the next page.
    func resumed(_ state: StoreState, _ database: Database) throws -> PageCursor {
        if isAtEnd { return self }
        switch order {
        case .oldestFirst:
            try state.check(position, database)
        case .newestFirst:
            guard state.purgedSequence <= lower else {
                throw HistoryError(
                    .tokenExpired,
                    "history up to sequence \(state.purgedSequence) was purged while it was being read: read again")
            }
            try state.check(position, database)
        }
        return self
    }

    /// The sequences that the next page looks at, at most `count` of them.
    func window(_ count: Int64) -> ClosedRange<Int64> {
        switch order {
        case .oldestFirst:
            // Not by adding, which could overflow on what a file holds.
            position.sequence + 1...(upper - position.sequence <= count ? upper : position.sequence + count)
        case .newestFirst: max(lower + 1, nextDown - count + 1)...nextDown
        }
    }

    /// Moves past a transaction that was looked at.
    mutating func advance(past sequence: Int64, _ nonce: UInt64) {
        position = HistoryToken(storeID: position.storeID, epoch: position.epoch, sequence: sequence, nonce: nonce)
        nextDown = sequence - 1
        isAtEnd = order == .oldestFirst ? sequence >= upper : sequence <= lower + 1
    }

    /// Moves past a window of which every transaction was looked at, or skipped by the query.
    mutating func finish(_ window: ClosedRange<Int64>, _ state: StoreState, _ database: Database) throws {
        let last = order == .oldestFirst ? window.upperBound : window.lowerBound
        advance(past: last, try Self.token(at: last, state, database).nonce)
    }

    /// Counts delivered transactions against the limit.
    mutating func deliver(_ count: Int) {
        guard let left = remaining else { return }
        remaining = left - count
        if left - count <= 0 { isAtEnd = true }
    }
}
