internal import FoundationEssentials
internal import PersistentHistory

/// What a token file remembers.
struct StoredToken: Sendable, Hashable {
    /// The consumer's token; nil before the first one.
    var token: HistoryToken?
    /// Some entities of durable contexts were loaded anew and stand at up to this sequence: a context that is behind it
    /// after a crash holds what its own token does not tell, and is loaded anew as a whole.
    var reloadedThrough: Int64 = 0
}

/// One of the two slots of a token file: 80 bytes in one page, with a checksum over them.
struct TokenSlot: Sendable, Hashable {
    static let size = 80
    private static let mark: UInt64 = 0x746F_6B65_6E31_0A00

    /// Counts writes; the slot with the larger one is newer.
    let generation: UInt64
    let content: StoredToken

    /// The slot's bytes: mark, generation, whether there is a token, store, epoch, sequence, nonce, reloaded through,
    /// checksum; numbers little-endian.
    var bytes: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Self.size)
        let token = content.token
        Self.append(Self.mark, to: &bytes)
        Self.append(generation, to: &bytes)
        Self.append(token == nil ? 0 : 1, to: &bytes)
        withUnsafeBytes(of: token?.storeID.uuid ?? UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)).uuid) {
            bytes += $0
        }
        Self.append(UInt64(bitPattern: token?.epoch ?? 0), to: &bytes)
        Self.append(UInt64(bitPattern: token?.sequence ?? 0), to: &bytes)
        Self.append(token?.nonce ?? 0, to: &bytes)
        Self.append(UInt64(bitPattern: content.reloadedThrough), to: &bytes)
        Self.append(Self.checksum(bytes[...]), to: &bytes)
        return bytes
    }

    /// A slot of its parts.
    init(generation: UInt64, content: StoredToken) {
        self.generation = generation
        self.content = content
    }

    /// Reads a slot; nil where the bytes are not one.
    init?(_ bytes: ArraySlice<UInt8>) {
        guard bytes.count == Self.size else { return nil }
        func number(_ index: Int) -> UInt64 {
            let start = bytes.startIndex + index
            return bytes[start..<start + 8].reversed().reduce(0) { $0 << 8 | UInt64($1) }
        }
        guard number(0) == Self.mark, number(72) == Self.checksum(bytes.prefix(72)), number(16) <= 1 else { return nil }
        generation = number(8)
        let epoch = Int64(bitPattern: number(40))
        let sequence = Int64(bitPattern: number(48))
        let reloaded = Int64(bitPattern: number(64))
        guard number(16) == 1 else {
            content = StoredToken(token: nil, reloadedThrough: reloaded)
            return
        }
        guard epoch > 0, sequence >= 0 else { return nil }
        let id = bytes[(bytes.startIndex + 24)..<(bytes.startIndex + 40)].withUnsafeBytes {
            $0.loadUnaligned(as: uuid_t.self)
        }
        let token = HistoryToken(storeID: UUID(uuid: id), epoch: epoch, sequence: sequence, nonce: number(56))
        content = StoredToken(token: token, reloadedThrough: reloaded)
    }

    private static func append(_ value: UInt64, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: value.littleEndian) { bytes += $0 }
    }

    /// FNV-1a over words with a final mix: any flipped bit and any torn write shows.
    private static func checksum(_ bytes: ArraySlice<UInt8>) -> UInt64 {
        let hash = bytes.reduce(UInt64(0xcbf2_9ce4_8422_2325)) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
        return (hash ^ (hash >> 32)) &* 0x9E37_79B9_7F4A_7C15
    }
}

/// The pages of a token file: a header for people and for whoever is refused, then the two slots.
enum TokenLayout {
    static let page = 4096
    static let fileSize = page * 3
    static let magic = "tidings token file, version 1\n"

    /// Where a slot lies.
    static func offset(ofSlot index: Int) -> Int { page * (index + 1) }

    /// The header's bytes, with who holds the file.
    static func header(holder: String) -> [UInt8] {
        let text = Array((magic + holder).utf8.prefix(page - 1))
        return text + [UInt8](repeating: 0, count: page - text.count)
    }

    /// Who holds the file, as its header says; nil where there is no header.
    static func holder(_ bytes: [UInt8]) -> String? {
        let text = bytes.prefix(page).prefix { $0 != 0 }
        guard text.starts(with: magic.utf8) else { return nil }
        return String(decoding: text.dropFirst(magic.utf8.count), as: UTF8.self)
    }

    /// A new file, with what it remembers in its first slot.
    static func image(_ slot: TokenSlot, holder: String) -> [UInt8] {
        var bytes = header(holder: holder)
        bytes += slot.bytes
        bytes += [UInt8](repeating: 0, count: fileSize - bytes.count)
        return bytes
    }

    /// The newer of the valid slots, and its index; nil where the file is not one, or both slots are damaged.
    static func read(_ bytes: [UInt8]) -> (slot: TokenSlot, index: Int)? {
        guard bytes.count == fileSize, holder(bytes) != nil else { return nil }
        let slots = (0..<2).compactMap { index in
            let start = offset(ofSlot: index)
            return TokenSlot(bytes[start..<start + TokenSlot.size]).map { (slot: $0, index: index) }
        }
        return slots.max { $0.slot.generation < $1.slot.generation }
    }
}
