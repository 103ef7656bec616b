import PersistentHistory
import TidingsSQLite
import TidingsServices

enum TailCommand: Subcommand {
    static let name = "tail"
    static let summary = "Follow the history as it is written"
    static let options: [Option] =
        [
            .value("--after", "N", "begin after this sequence, not at the newest"),
            .value("--last", "N", "begin with the newest N transactions"),
            .value("--author", "A", "only this author", isRepeatable: true),
            .value("--not-author", "A", "not this author", isRepeatable: true),
            .value("--entity", "E", "only changes of this entity", isRepeatable: true),
            .value("--op", "OP", "only insert, update or delete", isRepeatable: true),
            .flag("--json", "one JSON object a line"),
        ] + ServiceOptions.storeOptions
    static let details = """
        Prints each transaction once it is committed. It registers nowhere and needs no broker: history that is purged \
        before it was printed is told on standard error, and skipped. SIGTERM and SIGINT end it behind the transaction that \
        is being printed, within shutdownTimeout and with exit code 0.
        """

    static func run(_ arguments: Arguments) async throws {
        let after = try arguments.integer("--after")
        let last = try arguments.integer("--last")
        if after != nil, last != nil { throw UsageError("--after and --last exclude each other") }
        let request = try request(arguments)
        let printer = Printers.printer(json: arguments.has("--json"), request)
        let settings = try ServiceOptions(arguments)
        try await Stores.reading(try settings.path()) { store in
            let token = try await start(after: after, last: last, store)
            try await StoppableWork.run(name, within: settings.configuration.shutdownTimeout) { work in
                try await TailPrinter(printer, store).follow(request, after: token, until: work)
            }
        }
    }

    private static func start(after: Int64?, last: Int64?, _ store: HistoryStore) async throws -> HistoryToken {
        if let after { return try await LogCommand.start(after: after, store) }
        let head = try await store.currentToken()
        guard let last else { return head }
        let oldest = try await store.oldestToken()
        return try await LogCommand.start(after: max(oldest.sequence, head.sequence - last), store)
    }

    private static func request(_ arguments: Arguments) throws -> HistoryRequest {
        var request = HistoryRequest()
        request.authors = arguments.strings("--author").map { Set($0) }
        request.excludedAuthors = Set(arguments.strings("--not-author") ?? [])
        request.entities = arguments.strings("--entity").map { Set($0) }
        request.operations = try arguments.strings("--op").map { try Set($0.map(LogCommand.operation)) }
        return request
    }
}

/// Prints what comes, on a thread of its own: standard output may keep its writer waiting, and a signal must be heard then.
private actor TailPrinter {
    private let store: HistoryStore
    private var printer: any TransactionPrinter
    private let thread: ThreadExecutor

    nonisolated var unownedExecutor: UnownedSerialExecutor { thread.asUnownedSerialExecutor() }

    init(_ printer: any TransactionPrinter, _ store: HistoryStore) throws {
        self.printer = printer
        self.store = store
        thread = try HistoryError.threadStarted("tail", for: store.path)
    }

    /// Prints transactions until it is stopped, or nobody reads any more.
    func follow(_ request: HistoryRequest, after token: HistoryToken, until work: StoppableWork) async throws {
        var request = request
        var token = token
        while !Output.isClosed, !work.isStopping {
            let version = try await store.dataVersion()
            request.start = .token(token)
            token = try await printing(request, until: work)
            Output.flush()
            try await waitForCommit(since: version, until: work)
        }
    }

    /// Prints what there is, and returns how far that reaches.
    private func printing(_ request: HistoryRequest, until work: StoppableWork) async throws -> HistoryToken {
        var request = request
        while true {
            do {
                let page = try await store.fetch(request)
                for transaction in page.transactions {
                    try await printer.print(transaction)
                    if Output.isClosed || work.isStopping { return transaction.token }
                }
                if page.isAtEnd { return page.token }
                request.start = .token(page.token)
            } catch let error as HistoryError where error.code == .tokenExpired || error.code == .tokenInvalid {
                let oldest = try await store.oldestToken()
                Output.error("tidings tail: \(error.message); going on after \(oldest.sequence)")
                request.start = .token(oldest)
            }
        }
    }

    /// Waits until somebody has committed. Looking costs two microseconds, and nobody has to announce anything.
    private func waitForCommit(since version: Int64, until work: StoppableWork) async throws {
        while try await store.dataVersion() == version, !Output.isClosed, !work.isStopping {
            try await Task.sleep(for: .milliseconds(50))
        }
    }
}
