internal import Glibc
internal import PersistentHistory
internal import TidingsAMQP

/// The right to be a store's relay: an advisory lock on `<store>-relay`, which the kernel releases when its holder dies.
///
/// The file stays when the lock goes: one that is removed while another process opens it would give two holders.
final class RelayLock: Sendable {
    private let path: String
    private let descriptor: Int32

    /// Opens the file, and does not lock it yet. Throws `invalid` where that is not possible.
    init(_ store: HistoryStore) throws(MessagingError) {
        path = store.relayLockPath
        // Whoever may write the store may be its relay.
        var status = stat()
        let mode = stat(store.path, &status) == 0 ? status.st_mode & 0o666 : 0o600
        descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode)
        guard descriptor >= 0 else {
            throw MessagingError(
                .invalid,
                "\(path) cannot be opened (\(String(cString: strerror(errno)))): the relay's user needs write permission "
                    + "for it and its directory")
        }
        // The process's umask has cut the mode; where the file is another user's, it is that user's matter.
        fchmod(descriptor, mode)
    }

    deinit { close(descriptor) }

    /// Takes the lock where it is free. True where this process has it now.
    func take() throws(MessagingError) -> Bool {
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            switch errno {
            case EINTR: continue
            case EWOULDBLOCK: return false
            default:
                throw MessagingError(.invalid, "\(path) cannot be locked: \(String(cString: strerror(errno)))")
            }
        }
        let origin = HistoryOrigin()
        let holder = Array("\(origin.host) \(getpid())\n".utf8)
        ftruncate(descriptor, 0)
        _ = holder.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, 0) }
        return true
    }

    /// Gives the lock back.
    func release() { flock(descriptor, LOCK_UN) }

    /// Who has it, as it wrote itself: `<host> <process>`. nil where nobody has.
    var holder: String? {
        var bytes = [UInt8](repeating: 0, count: 300)
        let count = bytes.withUnsafeMutableBytes { pread(descriptor, $0.baseAddress, $0.count, 0) }
        guard count > 0 else { return nil }
        return String(decoding: bytes[..<count].prefix { $0 != 0x0A }, as: UTF8.self)
    }
}
