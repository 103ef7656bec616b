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
    /// The last whole line's token.
    private var lastLine: HistoryToken?
    /// Lines behind the token, from before it was moved back: history that was not lost has its line among them.
    private var earlier: Range<Int64>?

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
            guard code == EWOULDBLOCK else { throw Self.failure(.cannotOpen, "cannot be locked", path, code) }
            throw HistoryError(.busy, "\(path) is being written by another process: stop it, or name another file")
        }
        try recover()
    }

    /// Also where opening has failed after all: a number that is closed twice may be somebody else's by then.
    deinit { if descriptor >= 0 { close(descriptor) } }

    private static func failure(
        _ code: HistoryError.Code, _ what: String, _ path: String, _ number: Int32 = errno
    ) -> HistoryError {
        HistoryError(number == ENOSPC ? .diskFull : code, "\(path) \(what): \(String(cString: strerror(number)))")
    }

    // MARK: Writing

    /// Cuts off what an attempt that failed has left. A file that was emptied meanwhile is written from its start.
    mutating func prepare() throws(HistoryError) {
        let size = try size()
        if size < end {
            end = try lineEnd(before: size)
            earlier = nil
        }
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
        lastLine = token
        self.token = token
    }

    /// True where a transaction that comes again, since the token was moved back, has its line from before.
    ///
    /// Transactions must be asked for in order; the lines are looked at once.
    mutating func holds(_ token: HistoryToken) throws(HistoryError) -> Bool {
        while let lines = earlier, let line = try lines.isEmpty ? nil : lineToken(at: lines.lowerBound) {
            if line.sequence > token.sequence { return false }
            earlier = try lineEnd(after: lines.lowerBound)..<lines.upperBound
            // A new epoch tells the same transactions by other tokens.
            if line.sequence == token.sequence, line.nonce == token.nonce { return true }
        }
        earlier = nil
        return false
    }

    /// Keeps a token behind which there are no lines yet, or to which history was moved back, before the last lines.
    mutating func keep(_ token: HistoryToken) throws(HistoryError) {
        let temporary = "\(path).token.new"
        let file = Glibc.open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
        guard file >= 0 else { throw Self.failure(.database, "cannot be created", temporary) }
        defer { close(file) }
        // The second token tells which lines were there: later ones count instead of the first.
        let text = Array("\(token)\n\(lastLine.map { "\($0)\n" } ?? "")".utf8)
        let written = text.withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
        guard written == text.count, fdatasync(file) == 0 else {
            throw Self.failure(.database, "cannot be written", temporary)
        }
        guard rename(temporary, "\(path).token") == 0 else {
            throw Self.failure(.database, "cannot be replaced", "\(path).token")
        }
        try syncDirectory()
        let isBack = self.token.map { token.sequence < $0.sequence || token.epoch != $0.epoch } ?? true
        self.token = token
        if isBack { earlier = try linesBehindToken() }
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
        let kept = try keptToken()
        token = kept?.token
        if end > 0 {
            let start = try lineEnd(before: end - 1)
            guard let line = try lineToken(at: start) else { throw foreign() }
            lastLine = line
            // Where nothing was written since the token was kept, it counts, also where it stands before the line.
            let isNewer = token.map { $0.storeID != line.storeID || $0 < line } ?? true
            if isNewer, kept?.line != line { token = line }
            earlier = try linesBehindToken()
        }
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

    /// The offset behind the line that begins at an offset.
    private func lineEnd(after offset: Int64) throws(HistoryError) -> Int64 {
        var lower = offset
        while lower < end {
            let block = try read(at: lower, count: Int(min(end - lower, Int64(Self.blockSize))))
            if let index = block.firstIndex(of: 0x0A) { return lower + Int64(index) + 1 }
            guard !block.isEmpty else { break }
            lower += Int64(block.count)
        }
        return end
    }

    /// The last lines, as far as they stand behind the token, in order; nil where there are none.
    private func linesBehindToken() throws(HistoryError) -> Range<Int64>? {
        guard let token else { return nil }
        var start = end
        var next = Int64.max
        while start > 0 {
            let previous = try lineEnd(before: start - 1)
            guard let line = try lineToken(at: previous), line.storeID == token.storeID,
                line.sequence > token.sequence, line.sequence < next
            else { break }
            next = line.sequence
            start = previous
        }
        return start < end ? start..<end : nil
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

    /// The token that was kept, and that of the last line then.
    private func keptToken() throws(HistoryError) -> (token: HistoryToken, line: HistoryToken?)? {
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
        let lines = bytes.prefix(count).split(separator: 0x0A).map { String(decoding: $0, as: UTF8.self) }
        guard let token = lines.first.flatMap({ HistoryToken($0) }) else {
            throw HistoryError(
                .cannotOpen, "\(name) does not hold a token: remove it, the lines' own tokens count then")
        }
        return (token, lines.dropFirst().first.flatMap { HistoryToken($0) })
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
