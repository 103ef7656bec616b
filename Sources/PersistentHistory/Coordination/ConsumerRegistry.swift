internal import FoundationEssentials
package import TidingsSQLite

/// A consumer as the store knows it: registered, and acknowledged up to a token.
public struct ConsumerRecord: Sendable, Hashable {
    /// What becomes of history on a consumer's account. Open: later versions may add states.
    public struct State: RawRepresentable, Sendable, Hashable {
        /// As it is stored.
        public let rawValue: String
        /// A state of this name.
        public init(rawValue: String) { self.rawValue = rawValue }
        /// Its acknowledgements hold history.
        public static let active = State(rawValue: "active")
        /// A retention limit has declared it lost: it has to register anew.
        public static let lost = State(rawValue: "lost")
        /// An operator has evicted it.
        public static let evicted = State(rawValue: "evicted")
        /// The lineage was lost: it holds history, and nothing is purged until it has acknowledged in this epoch.
        public static let resyncing = State(rawValue: "resyncing")
    }

    /// The consumer's name.
    public let name: String
    /// The author on whose behalf it reads.
    public let author: String
    /// What it is for: `required` holds history, `optional` does not.
    public let role: String
    /// The broker's user who registered it, the only one whose acknowledgements count; nil where it has registered
    /// in the store itself, and no user has claimed it since.
    public let user: String?
    /// What becomes of history on its account.
    public let state: State
    /// Nothing after this sequence is purged before it has acknowledged.
    public let floor: Int64
    /// The epoch in which it has registered or acknowledged last.
    public let epoch: Int64
    /// Up to where it has acknowledged; nil before the first time, and after the lineage was lost.
    public let acknowledged: HistoryToken?
    /// When it registered, in microseconds since 1970.
    public let registeredAt: Int64
    /// When its latest acknowledgement was recorded.
    public let acknowledgedAt: Int64?

    package init(
        name: String, author: String, role: String, user: String?, state: State, floor: Int64, epoch: Int64,
        acknowledged: HistoryToken?, registeredAt: Int64, acknowledgedAt: Int64?
    ) {
        self.name = name
        self.author = author
        self.role = role
        self.user = user
        self.state = state
        self.floor = floor
        self.epoch = epoch
        self.acknowledged = acknowledged
        self.registeredAt = registeredAt
        self.acknowledgedAt = acknowledgedAt
    }
}

extension HistoryStore {
    /// The consumers that the store knows, in order of name.
    public func consumers() async throws -> [ConsumerRecord] {
        try await observe { database, state in try ConsumerRecord.all(database, state) }
    }
}

extension ConsumerRecord {
    package static func all(_ database: Database, _ state: StoreState) throws -> [ConsumerRecord] {
        try database.query("\(selection) ORDER BY name") { row in try ConsumerRecord(row, state) }
    }

    /// The consumer of a name; nil where there is none.
    static func find(_ name: String, _ database: Database, _ state: StoreState) throws -> ConsumerRecord? {
        try database.query("\(selection) WHERE name = ?", name) { row in try ConsumerRecord(row, state) }.first
    }

    private static let selection = """
        SELECT name, author, role, user, state, floor_sequence, epoch, sequence, nonce, registered, acknowledged
        FROM history_consumer
        """

    private init(_ row: Row, _ store: StoreState) throws {
        let epoch: Int64 = try row.get(6)
        let sequence: Int64? = try row.get(7)
        let nonce: Int64? = try row.get(8)
        let token = sequence.flatMap { sequence in
            nonce.map {
                HistoryToken(storeID: store.storeID, epoch: epoch, sequence: sequence, nonce: UInt64(bitPattern: $0))
            }
        }
        self.init(
            name: try row.get(0), author: try row.get(1), role: try row.get(2), user: try row.get(3),
            state: State(rawValue: try row.get(4)), floor: try row.get(5),
            epoch: epoch, acknowledged: token, registeredAt: try row.get(9), acknowledgedAt: try row.get(10))
    }
}
