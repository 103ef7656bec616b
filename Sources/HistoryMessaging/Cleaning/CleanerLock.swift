internal import Glibc
internal import PersistentHistory

/// That one cleaner at a time serves a store: a lock of the kernel's on a small file beside it, released when the process
/// ends, however that is. The file says who holds it.
struct CleanerLock: ~Copyable {
    private let descriptor: Int32

    private init(_ descriptor: Int32) { self.descriptor = descriptor }

    deinit { Glibc.close(descriptor) }

    /// Takes the lock, where it is free.
    ///
    /// - Returns: nil where somebody else holds it.
    /// - Throws: ``MessagingError`` `inUse` where the file cannot be made or locked.
    static func take(beside store: String) throws(MessagingError) -> CleanerLock? {
        let path = file(of: store)
        let descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o660)
        guard descriptor >= 0 else { throw failure(path, "opening") }
        // Whoever may write the store may clean it.
        var status = stat()
        if stat(store, &status) == 0 { _ = fchmod(descriptor, status.st_mode & 0o666) }
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            if errno == EINTR { continue }
            let isHeld = errno == EWOULDBLOCK
            let failure = failure(path, "locking")
            Glibc.close(descriptor)
            guard isHeld else { throw failure }
            return nil
        }
        let holder = Array("process \(getpid()) on \(HistoryOrigin().host)\n".utf8)
        // For people only: the lock holds without.
        if ftruncate(descriptor, 0) == 0 { _ = pwrite(descriptor, holder, holder.count, 0) }
        return CleanerLock(descriptor)
    }

    /// Who holds the lock of a store, as far as the file tells.
    static func holder(beside store: String) -> String {
        let descriptor = Glibc.open(file(of: store), O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return "another process" }
        defer { Glibc.close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 512)
        let count = max(0, pread(descriptor, &bytes, bytes.count, 0))
        let line = String(decoding: bytes.prefix(count).prefix { $0 != 0x0A }, as: UTF8.self)
        return line.isEmpty ? "another process" : line
    }

    private static func file(of store: String) -> String { "\(store)-cleaner" }

    private static func failure(_ path: String, _ doing: String) -> MessagingError {
        MessagingError(
            .inUse,
            "\(path), the file by which one cleaner at a time serves the store: \(doing) it failed: "
                + "\(String(cString: strerror(errno))): check the directory's permissions")
    }
}
