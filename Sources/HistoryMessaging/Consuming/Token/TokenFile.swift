internal import Glibc
internal import PersistentHistory
internal import TidingsSQLite

/// A consumer's token on disk, and the lock by which one process at a time runs a consumer of that name.
///
/// Two checksummed slots take turns, each write one `pwrite` and one `fdatasync`: a crash leaves the one before. Blocking
/// happens on a thread of its own. The lock is the kernel's (`flock`), released when the process ends, however that is.
actor TokenFile {
    /// What was found when the file was opened.
    enum Found: Sendable, Hashable {
        /// The file is new.
        case nothing
        /// A valid slot.
        case stored(StoredToken)
        /// Neither slot is valid, or the file is not one; the text says what is wrong.
        case damaged(String)

        /// The token that was found; nil where there was none.
        var token: HistoryToken? { if case .stored(let stored) = self { stored.token } else { nil } }
    }

    private let executor: ThreadExecutor
    private let path: String
    private let consumer: String
    private var descriptor: Int32 = -1
    private var latest: (slot: TokenSlot, index: Int)?

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    private init(path: String, consumer: String) throws(MessagingError) {
        self.path = path
        self.consumer = consumer
        do throws(SQLiteError) {
            executor = try ThreadExecutor(name: "token-file")
        } catch {
            throw MessagingError(.tokenFile, "\(path): \(error.message)", underlyingError: error)
        }
    }

    deinit { if descriptor >= 0 { Glibc.close(descriptor) } }

    /// Opens the file of a consumer and locks it; creates both file and directory where they are missing.
    ///
    /// Throws `inUse` where another process, or another consumer of this one, holds it; `tokenFile` where the system
    /// refuses.
    static func open(
        directory: String, consumer: String
    ) async throws -> (file: TokenFile, found: Found) {
        let file = try TokenFile(path: "\(directory)/\(BrokerNames.word(consumer)).token", consumer: consumer)
        let found = try await file.open(in: directory)
        return (file, found)
    }

    /// Makes a token durable. Returns when it is.
    func write(_ content: StoredToken) throws(MessagingError) {
        let index = latest.map { 1 - $0.index } ?? 0
        let slot = TokenSlot(generation: (latest?.slot.generation ?? 0) + 1, content: content)
        try put(slot.bytes, at: TokenLayout.offset(ofSlot: index))
        guard fdatasync(descriptor) == 0 else { throw failure("syncing it") }
        latest = (slot, index)
    }

    /// Unlocks and closes the file; harmless when repeated.
    func close() {
        guard descriptor >= 0 else { return }
        Glibc.close(descriptor)
        descriptor = -1
    }

    /// Replaces a file that is damaged. What it held is lost, and whoever calls has made up for it.
    func renew(_ content: StoredToken) throws(MessagingError) {
        let slot = TokenSlot(generation: 1, content: content)
        guard ftruncate(descriptor, off_t(TokenLayout.fileSize)) == 0 else { throw failure("resizing it") }
        try put(TokenLayout.image(slot, holder: Self.holder), at: 0)
        guard fsync(descriptor) == 0 else { throw failure("syncing it") }
        latest = (slot, 0)
    }

    // MARK: Opening

    private func open(in directory: String) throws(MessagingError) -> Found {
        try Self.makeDirectory(directory)
        var isNew = false
        while descriptor < 0 {
            descriptor = Glibc.open(path, O_RDWR | O_CLOEXEC)
            if descriptor >= 0 { break }
            guard errno == ENOENT else { throw failure("opening it") }
            isNew = try create(in: directory) || isNew
        }
        try lock()
        let bytes = try readAll()
        guard let read = TokenLayout.read(bytes) else { return .damaged(Self.damage(bytes)) }
        latest = read
        try put(TokenLayout.header(holder: Self.holder), at: 0)
        return isNew && read.slot.content.token == nil ? .nothing : .stored(read.slot.content)
    }

    private func lock() throws(MessagingError) {
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            guard errno != EINTR else { continue }
            guard errno == EWOULDBLOCK else { throw failure("locking it") }
            let holder = (try? readAll()).flatMap { TokenLayout.holder($0) } ?? "another process"
            close()
            throw MessagingError(
                .inUse,
                "the consumer \(consumer) is run by \(holder.isEmpty ? "another process" : holder) already (\(path)): "
                    + "stop that one, or give this one a name of its own")
        }
    }

    /// Makes a whole file under another name and gives it its own: nobody ever sees half of one. By a link, not by
    /// renaming: that would replace the file that another process has just made and locked.
    ///
    /// - Returns: false where another process was faster.
    private func create(in directory: String) throws(MessagingError) -> Bool {
        let temporary = "\(path).\(getpid())"
        let new = Glibc.open(temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0o660)
        guard new >= 0 else { throw failure("creating it") }
        defer {
            Glibc.close(new)
            unlink(temporary)
        }
        let image = TokenLayout.image(TokenSlot(generation: 1, content: StoredToken()), holder: "")
        guard pwrite(new, image, image.count, 0) == image.count, fsync(new) == 0 else { throw failure("creating it") }
        guard link(temporary, path) == 0 else {
            guard errno == EEXIST else { throw failure("creating it") }
            return false
        }
        try Self.sync(directory)
        return true
    }

    private static func makeDirectory(_ directory: String) throws(MessagingError) {
        guard mkdir(directory, 0o770) != 0 else { return try sync(parent(of: directory)) }
        guard errno == EEXIST else {
            throw MessagingError(
                .tokenFile,
                "\(directory), the directory of token files, cannot be made: \(String(cString: strerror(errno)))")
        }
    }

    private static func parent(of directory: String) -> String {
        directory.lastIndex(of: "/").map { $0 == directory.startIndex ? "/" : String(directory[..<$0]) } ?? "."
    }

    private static func sync(_ directory: String) throws(MessagingError) {
        let descriptor = Glibc.open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        defer { Glibc.close(descriptor) }
        guard fsync(descriptor) == 0 else {
            throw MessagingError(.tokenFile, "\(directory) cannot be synced: \(String(cString: strerror(errno)))")
        }
    }

    private func readAll() throws(MessagingError) -> [UInt8] {
        // One byte more than there should be: a longer file shows.
        var bytes = [UInt8](repeating: 0, count: TokenLayout.fileSize + 1)
        let count = pread(descriptor, &bytes, bytes.count, 0)
        guard count >= 0 else { throw failure("reading it") }
        return Array(bytes.prefix(count))
    }

    private func put(_ bytes: [UInt8], at offset: Int) throws(MessagingError) {
        guard pwrite(descriptor, bytes, bytes.count, off_t(offset)) == bytes.count else { throw failure("writing it") }
    }

    private func failure(_ doing: String) -> MessagingError {
        MessagingError(
            .tokenFile, "the token file \(path): \(doing) failed: \(String(cString: strerror(errno)))")
    }

    private static func damage(_ bytes: [UInt8]) -> String {
        if bytes.count != TokenLayout.fileSize { return "its size is \(bytes.count), not \(TokenLayout.fileSize)" }
        return TokenLayout.holder(bytes) == nil ? "it does not begin as one" : "neither of its slots is whole"
    }

    /// Who this process is, for those who are refused.
    private static var holder: String {
        let origin = HistoryOrigin()
        return "process \(getpid()) on \(origin.host)"
    }
}
