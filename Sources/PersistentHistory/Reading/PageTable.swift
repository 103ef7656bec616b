internal import Glibc

/// The transactions of a page: bytes and repeating texts once for all, and of each only plain values, so that to make
/// one and to pass it on costs next to nothing.
final class PageTable: Sendable {
    /// What is known of a transaction: numbers and places in the table.
    struct Record: Sendable {
        let sequence: Int64
        let nonce: UInt64
        let microseconds: Int64
        /// Positions in ``PageTable/texts``.
        let author: Int
        let contextName: Int?
        let origin: Int
        let changeCount: Int
        /// The number of further parts, or 0 where the changes were not asked for.
        let chunkCount: Int64
        /// Positions in ``PageTable/entries``.
        let entries: Range<Int>
        /// The place of the first part in the context's bytes.
        let changes: Range<Int>
    }

    let context: ChangeContext
    /// False where the changes were not asked for.
    let holdsChanges: Bool
    let epoch: Int64
    let texts: [String]
    let entries: [EntitySummary.Entry]

    init(
        context: ChangeContext, holdsChanges: Bool, epoch: Int64, texts: [String], entries: [EntitySummary.Entry]
    ) {
        self.context = context
        self.holdsChanges = holdsChanges
        self.epoch = epoch
        self.texts = texts
        self.entries = entries
    }
}

/// One column of a page whose text repeats from row to row.
struct RepeatingText {
    private var bytes: [UInt8] = []
    private var position: Int?

    /// The position among `texts` of the text that these bytes are; appended where it is not the one before.
    mutating func position(of text: UnsafeRawBufferPointer, in texts: inout [String]) -> Int {
        if let position, text.count == bytes.count, isSame(text) { return position }
        let added = texts.count
        texts.append(String(decoding: text, as: UTF8.self))
        bytes = Array(text)
        position = added
        return added
    }

    private func isSame(_ text: UnsafeRawBufferPointer) -> Bool {
        guard let start = text.baseAddress else { return true }
        return bytes.withUnsafeBytes { own in own.baseAddress.map { memcmp($0, start, text.count) == 0 } ?? true }
    }
}
