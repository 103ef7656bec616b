internal import FoundationEssentials
internal import Glibc
internal import PersistentHistory

/// A file of lines that are written by one process, whole or not at all as far as any reader of tokens can tell.
///
/// Beside it lies a file with `.token` behind its name: how far history was merged where the latest of it had no lines.
struct LineFile: ~Copyable {
    private let path: String
    private let descriptor: Int32
    /// The end of the last whole line: what is behind it is torn.
    private var end: Int64
    /// Up to where history was merged.
    private(set) var token: HistoryToken?

    private static let blockSize = 1 << 16

    /// Opens the file, creates it where it is missing, and cuts off a line that was torn by a crash.
    ///
    /// - Throws: ``HistoryError``: `cannotOpen` where the file is not one of such lines; `busy` where another process
    ///   writes it.
    init(_ path: String) throws(HistoryError) {
        self.path = path
        descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o644)
        end = 0
        guard descriptor >= 0 else { throw Self.failure(.cannotOpen, "cannot be opened", path) }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let code = errno
            close(descriptor)
            guard code == EWOULDBLOCK else { throw Self.failure(.cannotOpen, "cannot be locked", path, code) }
            throw HistoryError(.busy, "\(path) is being written by another process: stop it, or name another file")
        }
        do throws(HistoryError) {
            try recover()
        } catch {
            close(descriptor)
            throw error
        }
    }

    deinit { close(descriptor) }

    private static func failure(
        _ code: HistoryError.Code, _ what: String, _ path: String, _ number: Int32 = errno
    ) -> HistoryError {
        HistoryError(number == ENOSPC ? .diskFull : code, "\(path) \(what): \(String(cString: strerror(number)))")
    }

    // MARK: Writing

    /// Cuts off what an attempt that failed has left. A file that was emptied meanwhile is written from its start.
    mutating func prepare() throws(HistoryError) {
        let size = try size()
        if size < end { end = try lineEnd(before: size) }
        if size > end { try truncate() }
    }

    /// Writes behind the last whole line; returns how many bytes in all were written since.
    func write(_ bytes: [UInt8], at offset: Int64) throws(HistoryError) -> Int64 {
        var done = 0
        while done < bytes.count {
            let written = bytes.withUnsafeBytes { buffer in
                pwrite(descriptor, buffer.baseAddress! + done, buffer.count - done, off_t(end + offset) + off_t(done))
            }
            guard written >= 0 || errno == EINTR else { throw Self.failure(.database, "cannot be written", path) }
            done += max(0, written)
        }
        return offset + Int64(bytes.count)
    }

    /// Makes lines of so many bytes durable; they end with a transaction, up to which history is merged now.
    mutating func commit(_ count: Int64, _ token: HistoryToken) throws(HistoryError) {
        guard fdatasync(descriptor) == 0 else { throw Self.failure(.database, "cannot be synced", path) }
        end += count
        self.token = token
    }

    /// Keeps a token behind which there are no lines yet.
    mutating func keep(_ token: HistoryToken) throws(HistoryError) {
        let temporary = "\(path).token.new"
        let file = Glibc.open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
        guard file >= 0 else { throw Self.failure(.database, "cannot be created", temporary) }
        defer { close(file) }
        let text = Array("\(token)\n".utf8)
        let written = text.withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
        guard written == text.count, fdatasync(file) == 0 else {
            throw Self.failure(.database, "cannot be written", temporary)
        }
        guard rename(temporary, "\(path).token") == 0 else {
            throw Self.failure(.database, "cannot be replaced", "\(path).token")
        }
        try syncDirectory()
        self.token = token
    }

    // MARK: Recovering

    private mutating func recover() throws(HistoryError) {
        let size = try size()
        end = try lineEnd(before: size)
        if end == 0, size > 0 {
            // No whole line: a first one that was torn, or somebody's file.
            let start = try read(at: 0, count: TransactionLineWriter.start.count)
            guard TransactionLineWriter.start.starts(with: start) else { throw foreign() }
        }
        var found = try keptToken()
        if end > 0 {
            let start = try lineEnd(before: end - 1)
            guard let token = try lineToken(at: start) else { throw foreign() }
            let isNewer = found.map { $0.storeID != token.storeID || $0 < token } ?? true
            if isNewer { found = token }
        }
        token = found
        if size > end { try truncate() }
        if size == 0 { try syncDirectory() }
    }

    /// Makes names durable that were added or changed.
    private func syncDirectory() throws(HistoryError) {
        let directory = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        let descriptor = Glibc.open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.failure(.database, "cannot be opened to sync it", directory) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw Self.failure(.database, "cannot be synced", directory) }
    }

    private func foreign() -> HistoryError {
        HistoryError(.cannotOpen, "\(path) does not hold lines of history: name another file")
    }

    private func truncate() throws(HistoryError) {
        guard ftruncate(descriptor, off_t(end)) == 0, fdatasync(descriptor) == 0 else {
            throw Self.failure(.database, "cannot be cut to its last whole line", path)
        }
    }

    private func size() throws(HistoryError) -> Int64 {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw Self.failure(.database, "cannot be examined", path) }
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw HistoryError(.cannotOpen, "\(path) is not a file: write to a stream through its descriptor")
        }
        return Int64(status.st_size)
    }

    /// The offset behind the last line feed before an offset; 0 where there is none.
    private func lineEnd(before offset: Int64) throws(HistoryError) -> Int64 {
        var upper = offset
        while upper > 0 {
            let lower = max(0, upper - Int64(Self.blockSize))
            let block = try read(at: lower, count: Int(upper - lower))
            if let index = block.lastIndex(of: 0x0A) { return lower + Int64(index) + 1 }
            upper = lower
        }
        return 0
    }

    /// The token with which a line begins.
    private func lineToken(at offset: Int64) throws(HistoryError) -> HistoryToken? {
        let bytes = try read(at: offset, count: 512)
        guard bytes.starts(with: TransactionLineWriter.start), let close = bytes.firstIndex(of: 0x7D) else {
            return nil
        }
        let object = bytes[(TransactionLineWriter.start.count - 1)...close]
        return try? JSONDecoder().decode(HistoryToken.self, from: Data(object))
    }

    private func keptToken() throws(HistoryError) -> HistoryToken? {
        let name = "\(path).token"
        let file = Glibc.open(name, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else {
            guard errno == ENOENT else { throw Self.failure(.cannotOpen, "cannot be opened", name) }
            return nil
        }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = bytes.withUnsafeMutableBytes { Glibc.read(file, $0.baseAddress, $0.count) }
        guard count >= 0 else { throw Self.failure(.cannotOpen, "cannot be read", name) }
        let text = String(decoding: bytes.prefix(count).prefix { $0 != 0x0A }, as: UTF8.self)
        guard let token = HistoryToken(text) else {
            throw HistoryError(
                .cannotOpen, "\(name) does not hold a token: remove it, the lines' own tokens count then")
        }
        return token
    }

    private func read(at offset: Int64, count: Int) throws(HistoryError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        var done = 0
        while done < count {
            let got = bytes.withUnsafeMutableBytes { buffer in
                pread(descriptor, buffer.baseAddress! + done, count - done, off_t(offset) + off_t(done))
            }
            guard got >= 0 || errno == EINTR else { throw Self.failure(.database, "cannot be read", path) }
            if got == 0 { break }
            done += max(0, got)
        }
        return Array(bytes.prefix(done))
    }
}
