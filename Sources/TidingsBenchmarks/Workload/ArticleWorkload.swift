/// What a one-row transaction does.
enum RowOperation: String, CaseIterable, Sendable {
    case insert
    case update
    case delete
}

/// The rows that measurements write: the same for a measurement and its floor, as both start with one seed.
struct ArticleWorkload: Sendable {
    static let schema = """
        CREATE TABLE article(id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, title TEXT NOT NULL, body TEXT NOT NULL,
            views INTEGER NOT NULL, score REAL NOT NULL, updated_at TEXT NOT NULL)
        """
    static let insert = "INSERT INTO article VALUES (?, ?, ?, ?, ?, ?, ?)"
    static let update = "UPDATE article SET views = views + 1, updated_at = ? WHERE id = ?"
    static let delete = "DELETE FROM article WHERE id = ?"

    private(set) var id: Int64 = 0
    private(set) var uuid = [UInt8](repeating: 0, count: 36)
    private(set) var title = [UInt8](repeating: 0, count: 30)
    private(set) var body = [UInt8](repeating: 0, count: 200)
    private(set) var views: Int64 = 0
    private(set) var score = 0.0
    private(set) var updatedAt = Array("2024-05-06T07:08:09.123Z".utf8)
    /// The rows that are there.
    private var alive: [Int64]
    private var nextID: Int64
    private var state: UInt64

    /// A workload for a table that holds rows 1 to `rows`.
    init(rows: Int, seed: UInt64 = 0x1234_5678_8765_4321) {
        alive = rows == 0 ? [] : Array(1...Int64(rows))
        nextID = Int64(rows) + 1
        state = seed
    }

    /// Chooses the next row to insert, update or delete.
    mutating func prepare(_ operation: RowOperation) {
        switch operation {
        case .insert:
            id = nextID
            nextID += 1
            alive.append(id)
            Self.fill(&uuid, &state, Self.hexadecimal)
            Self.fill(&title, &state, Self.letters)
            Self.fill(&body, &state, Self.letters)
            views = Int64(random() % 10_000)
            score = Double(random() % 100_000) / 7
        case .update:
            id = alive[Int(random() % UInt64(alive.count))]
            let number = random()
            updatedAt[21] = 0x30 + UInt8(number % 10)
            updatedAt[22] = 0x30 + UInt8(number / 16 % 10)
        case .delete:
            let index = Int(random() % UInt64(alive.count))
            id = alive[index]
            alive[index] = alive[alive.count - 1]
            alive.removeLast()
        }
    }

    private mutating func random() -> UInt64 { Self.next(&state) }

    /// Xorshift: a handful of instructions, so that making rows weighs little beside writing them.
    @inline(__always)
    private static func next(_ state: inout UInt64) -> UInt64 {
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        return state
    }

    private static func fill(_ bytes: inout [UInt8], _ state: inout UInt64, _ alphabet: [UInt8]) {
        let mask = UInt64(alphabet.count - 1)
        bytes.withUnsafeMutableBufferPointer { bytes in
            alphabet.withUnsafeBufferPointer { alphabet in
                var bits: UInt64 = 0
                for index in bytes.indices {
                    if index % 8 == 0 { bits = next(&state) }
                    bytes[index] = alphabet[Int(bits & mask)]
                    bits >>= 6
                }
            }
        }
    }

    private static let letters = Array("abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_".utf8)
    private static let hexadecimal = Array("0123456789abcdef".utf8)
}
