internal import Glibc
internal import TidingsSQLite

/// Encoded records of the transaction under way: a reusable buffer that spills to an unlinked file, so that memory
/// stays flat whatever the transaction's size.
///
/// Positions count from the start of the transaction, spilled bytes included: rolling back to a position works on
/// both sides of a spill.
final class RecordBuffer {
    /// Owned, freed in `deinit`; `capacity` bytes, the first `count` of them written.
    private var base: UnsafeMutableRawPointer
    private var capacity: Int
    private(set) var count = 0
    private let spillThreshold: Int
    private var spill: SpillFile?
    /// The lengths of the pieces in the spill file, in order; each ends where a record ends.
    private(set) var spilledPieces: [Int] = []
    private var spilledCount = 0

    init(spillThreshold: Int) {
        self.spillThreshold = spillThreshold
        capacity = 4096
        base = .allocate(byteCount: capacity, alignment: 16)
    }

    deinit { base.deallocate() }

    /// The number of bytes since the start of the transaction.
    var position: Int { spilledCount + count }

    var isEmpty: Bool { position == 0 }

    /// The bytes that are not spilled. Valid until the next change.
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: base, count: count) }

    /// Forgets everything, and the memory of an unusually large transaction.
    func removeAll() {
        if spilledCount > 0 { rollBack(to: 0) }
        count = 0
        if spill != nil { spill = nil }
        guard capacity / 2 > spillThreshold, capacity > 65_536 else { return }
        base.deallocate()
        capacity = 4096
        base = .allocate(byteCount: capacity, alignment: 16)
    }

    /// Forgets everything behind a position.
    func rollBack(to position: Int) {
        guard position < spilledCount else {
            count = position - spilledCount
            return
        }
        count = 0
        while spilledCount > position, let last = spilledPieces.popLast() {
            let kept = max(0, last - (spilledCount - position))
            spilledCount -= last - kept
            if kept > 0 {
                spilledPieces.append(kept)
                break
            }
        }
    }

    /// Where the next bytes go, with room for `additional` of them. Follow with ``advance(to:)``.
    @inline(__always)
    func reserve(_ additional: Int) -> UnsafeMutableRawPointer {
        if count + additional > capacity { grow(count + additional) }
        return base + count
    }

    /// Makes everything before `end` part of the buffer.
    @inline(__always)
    func advance(to end: UnsafeMutableRawPointer) { count = end - base }

    /// Overwrites a byte that is not spilled, by its offset in the buffer.
    @inline(__always)
    func setBits(_ bits: UInt8, at offset: Int) {
        let address = base + offset
        address.storeBytes(of: address.load(as: UInt8.self) | bits, as: UInt8.self)
    }

    private func grow(_ needed: Int) {
        capacity = max(needed, capacity * 2)
        let larger = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 16)
        larger.copyMemory(from: base, byteCount: count)
        base.deallocate()
        base = larger
    }

    /// Moves the buffer to the spill file where it has passed the threshold. Call only where a record ends.
    @inline(__always)
    func spillIfLarge() throws(HistoryError) {
        if count > spillThreshold { try spillAll() }
    }

    private func spillAll() throws(HistoryError) {
        let file: SpillFile
        if let open = spill {
            file = open
        } else {
            file = try SpillFile()
            spill = file
        }
        try file.write(bytes, at: spilledCount)
        spilledPieces.append(count)
        spilledCount += count
        count = 0
    }

    /// Calls `body` with each piece of the transaction in order, one in memory at a time.
    func forEachPiece(_ body: (UnsafeRawBufferPointer) throws -> Void) throws {
        var offset = 0
        if let spill, !spilledPieces.isEmpty {
            let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: spilledPieces.max() ?? 0, alignment: 16)
            defer { scratch.deallocate() }
            for length in spilledPieces {
                let piece = UnsafeMutableRawBufferPointer(rebasing: scratch[..<length])
                try spill.read(into: piece, at: offset)
                try body(UnsafeRawBufferPointer(piece))
                offset += length
            }
        }
        if count > 0 || offset == 0 { try body(bytes) }
    }
}

extension RecordBuffer {
    /// Appends a varint as SQLite's file format has it: big-endian groups of seven bits, a ninth byte of eight.
    ///
    /// [Database file format, 1.6](https://www.sqlite.org/fileformat2.html#varint)
    @inline(__always)
    func append(varint value: UInt64) {
        let start = reserve(9)
        advance(to: Varint.write(value, to: start))
    }

    /// Appends a byte.
    @inline(__always)
    func append(byte: UInt8) {
        let start = reserve(1)
        start.storeBytes(of: byte, as: UInt8.self)
        advance(to: start + 1)
    }

    /// Appends bytes as they are.
    func append(bytes source: UnsafeRawBufferPointer) {
        let start = reserve(source.count)
        if let address = source.baseAddress { start.copyMemory(from: address, byteCount: source.count) }
        advance(to: start + source.count)
    }

    /// Appends a value: its serial type as a varint, then its bytes.
    @inline(__always)
    func append(_ value: BorrowedValue) {
        let start = reserve(18 + value.count)
        switch value.storageClass {
        case 1: advance(to: SerialType.write(integer: value.bits, to: start))
        case 2: advance(to: SerialType.write(realBits: value.bits, to: start))
        case 3, 4:
            let type = UInt64(value.count) * 2 + (value.storageClass == 3 ? 13 : 12)
            let body = Varint.write(type, to: start)
            if let bytes = value.bytes { body.copyMemory(from: bytes, byteCount: value.count) }
            advance(to: body + value.count)
        default:
            start.storeBytes(of: 0, as: UInt8.self)
            advance(to: start + 1)
        }
    }
}

/// A file without a name, which goes with its descriptor.
private final class SpillFile {
    private let descriptor: Int32

    init() throws(HistoryError) {
        var failure = ""
        for directory in Self.directories {
            let opened = Self.openUnlinked(in: directory)
            if opened >= 0 {
                descriptor = opened
                return
            }
            failure = "\(directory): \(String(cString: strerror(errno)))"
        }
        throw HistoryError(
            .database,
            "cannot create a temporary file for a large transaction (\(failure)): set TMPDIR to a writable directory")
    }

    deinit { close(descriptor) }

    /// Where SQLite itself would put temporary files.
    private static var directories: [String] {
        let chosen = ["SQLITE_TMPDIR", "TMPDIR"].compactMap { (name: String) -> String? in
            getenv(name).map { String(cString: $0) }
        }
        return chosen + ["/var/tmp", "/tmp"]
    }

    private static func openUnlinked(in directory: String) -> Int32 {
        var template = Array("\(directory)/tidings-spill-XXXXXX".utf8CString)
        let descriptor = mkstemp(&template)
        guard descriptor >= 0 else { return descriptor }
        unlink(template)
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        return descriptor
    }

    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) throws(HistoryError) {
        var done = 0
        while done < bytes.count {
            let written = pwrite(descriptor, bytes.baseAddress! + done, bytes.count - done, off_t(offset + done))
            if written < 0, errno == EINTR { continue }
            guard written > 0 else { throw Self.failure("write") }
            done += written
        }
    }

    func read(into bytes: UnsafeMutableRawBufferPointer, at offset: Int) throws(HistoryError) {
        var done = 0
        while done < bytes.count {
            let got = pread(descriptor, bytes.baseAddress! + done, bytes.count - done, off_t(offset + done))
            if got < 0, errno == EINTR { continue }
            guard got > 0 else { throw Self.failure("read") }
            done += got
        }
    }

    private static func failure(_ verb: String) -> HistoryError {
        let code: HistoryError.Code = errno == ENOSPC ? .diskFull : .database
        return HistoryError(
            code,
            "cannot \(verb) the temporary file of a large transaction: \(String(cString: strerror(errno))): "
                + "free space there, or set TMPDIR to a larger directory")
    }
}
