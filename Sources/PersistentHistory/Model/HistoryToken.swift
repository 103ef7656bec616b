public import FoundationEssentials

/// A place in the history of a store: the commit sequence number of a transaction, with proof of its lineage.
///
/// Sequences are assigned inside SQLite's write lock, one after the other and without holes; no clock is involved.
/// The nonce is random and stored with the transaction, so that a token of a history that was lost (power loss,
/// a restored copy) is recognised even where its sequence exists again.
public struct HistoryToken: Sendable, Hashable {
    /// The store.
    public let storeID: UUID
    /// The epoch of the store, counted from 1; a restore or a proven loss of lineage starts a new one.
    public let epoch: Int64
    /// The commit sequence number, counted from 1; 0 stands before the first transaction.
    public let sequence: Int64
    /// The random number stored with the transaction.
    public let nonce: UInt64

    /// Makes a token of its parts.
    public init(storeID: UUID, epoch: Int64, sequence: Int64, nonce: UInt64) {
        self.storeID = storeID
        self.epoch = epoch
        self.sequence = sequence
        self.nonce = nonce
    }

    /// The nonce as sixteen hexadecimal digits.
    package var nonceText: String { Self.nonceText(nonce) }

    /// A nonce as sixteen hexadecimal digits.
    package static func nonceText(_ nonce: UInt64) -> String { Hexadecimal.string(nonce) }
}

extension HistoryToken: Comparable {
    /// By store, epoch and sequence. Only tokens of one store and epoch have an order that means something.
    public static func < (left: HistoryToken, right: HistoryToken) -> Bool {
        if left.storeID != right.storeID { return left.storeID.uuidString < right.storeID.uuidString }
        return (left.epoch, left.sequence, left.nonce) < (right.epoch, right.sequence, right.nonce)
    }
}

extension HistoryToken: LosslessStringConvertible {
    /// `<store>:<epoch>:<sequence>:<nonce>`.
    public var description: String { "\(storeID.uuidString.lowercased()):\(epoch):\(sequence):\(nonceText)" }

    /// Reads the form that `description` writes; nil for anything else.
    public init?(_ description: String) {
        let parts = description.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 4, let storeID = UUID(uuidString: String(parts[0])), let epoch = Int64(parts[1]),
            let sequence = Int64(parts[2]), let nonce = Hexadecimal.value(parts[3]), epoch > 0, sequence >= 0
        else { return nil }
        self.init(storeID: storeID, epoch: epoch, sequence: sequence, nonce: nonce)
    }
}

extension HistoryToken: Codable {
    private enum CodingKeys: String, CodingKey {
        case store, epoch, sequence, nonce
    }

    /// Reads an object of `store`, `epoch`, `sequence` and `nonce`, the nonce in hexadecimal.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        let text = try container.decode(String.self, forKey: .nonce)
        let epoch = try container.decode(Int64.self, forKey: .epoch)
        let sequence = try container.decode(Int64.self, forKey: .sequence)
        guard let nonce = Hexadecimal.value(text), epoch > 0, sequence >= 0 else {
            throw DecodingError.dataCorrupted(
                .init(
                    codingPath: decoder.codingPath,
                    debugDescription:
                        "a token needs an epoch from 1, a sequence from 0, a nonce of 16 hexadecimal digits"))
        }
        let storeID = try container.decode(UUID.self, forKey: .store)
        self.init(storeID: storeID, epoch: epoch, sequence: sequence, nonce: nonce)
    }

    /// Writes an object of `store`, `epoch`, `sequence` and `nonce`; the nonce as text, since other languages read
    /// JSON numbers as floating point.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(storeID, forKey: .store)
        try container.encode(epoch, forKey: .epoch)
        try container.encode(sequence, forKey: .sequence)
        try container.encode(nonceText, forKey: .nonce)
    }
}

/// Fixed-width hexadecimal, without Foundation's formatting.
enum Hexadecimal {
    static func string(_ value: UInt64) -> String {
        let digits = String(value, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    static func value(_ text: some StringProtocol) -> UInt64? {
        guard text.utf8.count == 16, text.utf8.allSatisfy({ $0 != 0x2B && $0 != 0x2D }) else { return nil }
        return UInt64(text, radix: 16)
    }
}
