import Glibc

/// The floor of making a token durable: two slots in turn, one `fdatasync` for each token.
final class RawTokenFile {
    private let descriptor: Int32
    private let slot: UnsafeMutableRawBufferPointer
    private var count = 0

    init(_ path: String) throws {
        descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        slot = .allocate(byteCount: 128, alignment: 8)
        slot.initializeMemory(as: UInt8.self, repeating: 0)
        guard descriptor >= 0 else { throw BenchmarkError("\(path): \(String(cString: strerror(errno)))") }
    }

    deinit {
        slot.deallocate()
        if descriptor >= 0 { close(descriptor) }
    }

    func write(_ sequence: Int) throws {
        slot.storeBytes(of: Int64(sequence), as: Int64.self)
        let offset = off_t(count % 2 * slot.count)
        count += 1
        guard pwrite(descriptor, slot.baseAddress, slot.count, offset) == slot.count, fdatasync(descriptor) == 0 else {
            throw BenchmarkError("a token could not be written: \(String(cString: strerror(errno)))")
        }
    }
}

/// The floor of making commits durable: one `fdatasync` of the write-ahead log.
final class RawLog {
    private let descriptor: Int32

    /// Opens the log of a database that has one.
    init(of database: String) throws {
        descriptor = open(database + "-wal", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw BenchmarkError("\(database)-wal: \(String(cString: strerror(errno)))") }
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    func sync() throws {
        guard fdatasync(descriptor) == 0 else {
            throw BenchmarkError("a log could not be synced: \(String(cString: strerror(errno)))")
        }
    }
}
