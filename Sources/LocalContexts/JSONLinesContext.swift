internal import Glibc
public import PersistentHistory
internal import TidingsSQLite

/// Writes history as JSON, one line for each transaction, in the form of `tidings log --json`: for a pipe, a shipper of
/// logs, or a person with `jq`.
///
/// To a file it is durable: lines are synced before a merge returns, a line that a crash has torn is cut off, and
/// writing goes on behind the last whole line, so that each transaction has exactly one. To a stream, such as standard
/// output, a transaction may come again after a crash, and does after a rewind.
///
/// Lines of history that was lost afterwards, by a power loss or an older copy of the store, stay. An empty batch that
/// reaches less far than the lines moves a file back: what was not lost is known by its nonce and gets no second line, and
/// what took the place of the lost follows behind.
///
/// Memory does not grow with the size of a transaction.
public actor JSONLinesContext: MergeContext {
    private enum Target: Sendable {
        case file(String)
        case stream(Int32)
    }

    /// The name, unique among the contexts of a consumer.
    public nonisolated let name: String
    /// True for a file, false for a stream.
    public nonisolated let isDurable: Bool

    private let target: Target
    private let thread: ThreadExecutor
    private var file: LineFile?
    /// The last transaction that a stream has been given whole of a batch that failed.
    private var streamed: HistoryToken?
    /// True where a stream was left in the middle of a line.
    private var isTorn = false
    private var isWorking = false

    /// The thread on which lines are written: a pipe may keep its writer waiting.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { thread.asUnownedSerialExecutor() }

    /// Lines in a file of their own. Nothing is opened before the first call of a consumer.
    ///
    /// A second file, with `.token` behind the name, keeps the token where the latest history was not for this context, or
    /// was moved back.
    /// The lines may be taken away, all of them, while the context is closed; to start anew remove both files.
    ///
    /// - Parameters:
    ///   - path: the file; created where it is missing.
    ///   - name: unique among the contexts of a consumer.
    /// - Throws: ``HistoryError`` where the system starts no more threads.
    public init(_ path: String, name: String = "json") throws {
        target = .file(path)
        isDurable = true
        self.name = name
        thread = try HistoryError.threadStarted("json-lines", for: path)
    }

    /// Lines to an open stream: standard output, a pipe, a socket.
    ///
    /// - Parameters:
    ///   - descriptor: stays the caller's, who closes it after the consumer has ended. Where its reader may go, ignore
    ///     SIGPIPE, so that the merge fails instead of the process.
    ///   - name: unique among the contexts of a consumer.
    /// - Throws: ``HistoryError`` where the system starts no more threads.
    public init(descriptor: Int32, name: String = "json") throws {
        target = .stream(descriptor)
        isDurable = false
        self.name = name
        thread = try HistoryError.threadStarted("json-lines", for: "descriptor \(descriptor)")
    }

    /// The token up to which lines were written; nil for a new file, and for a stream.
    ///
    /// - Throws: ``HistoryError``: `cannotOpen` where the file holds something else; `busy` where another process has it.
    public func durableToken() async throws -> HistoryToken? {
        try open()
        return file?.token
    }

    /// Closes the file; harmless when repeated. The next call opens it again.
    public func close() {
        guard !isWorking else { return }
        file = nil
    }

    /// Writes the transactions of a batch that were not written yet. When it returns, a file is on the disk.
    ///
    /// - Throws: ``HistoryError``: `diskFull`, `tokenInvalid` where the lines are of another store, or of history that was
    ///   lost and not moved back; what reading the changes throws. A file keeps no line of the batch then; what a stream has
    ///   been given whole is not repeated.
    public func merge(_ batch: HistoryBatch) async throws {
        guard !isWorking else {
            throw HistoryError(.busy, "the context \(name) is writing: one call at a time")
        }
        isWorking = true
        defer { isWorking = false }
        switch target {
        case .file(let path): try await mergeIntoFile(batch, path)
        case .stream(let descriptor): try await mergeIntoStream(batch, descriptor)
        }
    }

    // MARK: Files

    private func open() throws(HistoryError) {
        if case .file(let path) = target, file == nil { file = try LineFile(path) }
    }

    private func mergeIntoFile(_ batch: HistoryBatch, _ path: String) async throws {
        try open()
        if let stored = file?.token, stored.storeID != batch.token.storeID {
            throw HistoryError(
                .tokenInvalid,
                "\(path) holds history of store \(stored.storeID), not of \(batch.token.storeID): name another file")
        }
        if let stored = file?.token { try check(batch, against: stored, path) }
        try file?.prepare()
        var writer = TransactionLineWriter()
        var count: Int64 = 0
        var last: HistoryToken?
        for transaction in batch.transactions where isNew(transaction.token, after: file?.token) {
            guard try file?.holds(transaction.token) != true else { continue }
            try await writer.write(transaction) { bytes in
                count = try file?.write(bytes, at: count) ?? count
                return true
            }
            last = transaction.token
        }
        if let last { try file?.commit(count, last) }
        let isMoved = batch.transactions.isEmpty && batch.token != file?.token
        if isMoved || isNew(batch.token, after: file?.token) { try file?.keep(batch.token) }
    }

    /// Proves that transactions stand in one history with a file's token, as far as they tell. Without any a batch moves
    /// the file, wherever it reaches.
    private func check(_ batch: HistoryBatch, against stored: HistoryToken, _ path: String) throws(HistoryError) {
        guard let first = batch.transactions.first?.token else { return }
        func contradicts(_ token: HistoryToken) -> Bool {
            token.epoch < stored.epoch
                || (token.epoch == stored.epoch && token.sequence == stored.sequence && token.nonce != stored.nonce)
        }
        let isBehind = first.epoch <= stored.epoch && first.sequence <= stored.sequence
        guard contradicts(batch.token) || (isBehind && batch.transactions.contains { contradicts($0.token) })
        else { return }
        throw HistoryError(
            .tokenInvalid,
            "\(path) stands at \(stored), which is not in the history of \(batch.token): resync the consumer")
    }

    private func isNew(_ token: HistoryToken, after last: HistoryToken?) -> Bool {
        guard let last, last.storeID == token.storeID else { return true }
        return token.epoch > last.epoch || (token.epoch == last.epoch && token.sequence > last.sequence)
    }

    // MARK: Streams

    private func mergeIntoStream(_ batch: HistoryBatch, _ descriptor: Int32) async throws {
        var writer = TransactionLineWriter()
        // Of a batch that is tried again, what was given whole is left out.
        let done = streamed.flatMap { last in batch.transactions.lastIndex { $0.token == last } }
        for transaction in batch.transactions.dropFirst(done.map { $0 + 1 } ?? 0) {
            if isTorn { try Self.write([0x0A], to: descriptor) }
            isTorn = true
            try await writer.write(transaction) { bytes in
                try Self.write(bytes, to: descriptor)
                return true
            }
            isTorn = false
            streamed = transaction.token
        }
        streamed = nil
    }

    private static func write(_ bytes: [UInt8], to descriptor: Int32) throws(HistoryError) {
        var done = 0
        while done < bytes.count {
            let written = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress! + done, $0.count - done) }
            if written >= 0 {
                done += written
            } else if errno == EAGAIN {
                var wanted = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                _ = poll(&wanted, 1, -1)
            } else if errno != EINTR {
                let reason = String(cString: strerror(errno))
                throw HistoryError(.database, "descriptor \(descriptor) cannot be written: \(reason)")
            }
        }
    }
}
