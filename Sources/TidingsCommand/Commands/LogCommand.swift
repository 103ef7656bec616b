import FoundationEssentials
import PersistentHistory

enum LogCommand: Subcommand {
    static let name = "log"
    static let summary = "List transactions and their changes"
    static let options: [Option] =
        [
            .value("--after", "N", "only transactions after this sequence"),
            .value("--until", "N", "only transactions up to this sequence, itself included"),
            .value("--author", "A", "only this author", isRepeatable: true),
            .value("--not-author", "A", "not this author", isRepeatable: true),
            .value("--entity", "E", "only changes of this entity", isRepeatable: true),
            .value("--op", "OP", "only insert, update or delete", isRepeatable: true),
            .value("--object", "ENTITY:KEY", "only changes of this object"),
            .value("--since", "TIME", "only at or after this time, by the writers' clocks"),
            .value("--before", "TIME", "only before this time"),
            .value("--limit", "N", "at most so many transactions"),
            .flag("--reverse", "newest first"),
            .flag("--count", "print the number of transactions only"),
            .flag("--json", "one JSON object a line"),
        ] + ServiceOptions.storeOptions
    static let details = """
        TIME is RFC 3339, such as 2026-11-30T12:00:00Z, or an age such as 7d, 12h, 30m, 45s. KEY is the primary \
        key; one of several columns is written as COLUMN=VALUE,COLUMN=VALUE. The case of names does not count.
        """

    static func run(_ arguments: Arguments) async throws {
        var request = try request(arguments)
        let after = try arguments.integer("--after")
        let object = try arguments.string("--object").map { try ObjectOption($0) }
        var printer = Printers.printer(json: arguments.has("--json"), request)
        try await Stores.reading(ServiceOptions.readingPath(arguments)) { store in
            if let after { request.start = .token(try await start(after: after, store)) }
            if let object { request.objects = try await object.objects(in: store) }
            guard !arguments.has("--count") else {
                return Output.line(String(try await store.count(request)))
            }
            for try await transaction in store.history(request) {
                try await printer.print(transaction)
                if Output.isClosed { return }
            }
        }
    }

    /// The token behind which to begin; the purge mark has one though its transaction is gone.
    static func start(after sequence: Int64, _ store: HistoryStore) async throws -> HistoryToken {
        let oldest = try await store.oldestToken()
        if sequence == oldest.sequence { return oldest }
        guard sequence > oldest.sequence else {
            throw CommandError(
                "\(store.path): history after \(sequence) was purged up to \(oldest.sequence): "
                    + "read on with --after \(oldest.sequence), and what is missing from the tables themselves")
        }
        var request = HistoryRequest(limit: 1, order: .newestFirst)
        request.through = sequence
        for try await transaction in store.transactions(request) where transaction.token.sequence == sequence {
            return transaction.token
        }
        throw try await Stores.missing(sequence, in: store)
    }

    private static func request(_ arguments: Arguments) throws -> HistoryRequest {
        let now = Date()
        var request = HistoryRequest()
        request.through = try arguments.integer("--until")
        request.authors = arguments.strings("--author").map { Set($0) }
        request.excludedAuthors = Set(arguments.strings("--not-author") ?? [])
        request.entities = arguments.strings("--entity").map { Set($0) }
        request.operations = try arguments.strings("--op").map { try Set($0.map(operation)) }
        request.since = try arguments.time("--since", now: now)
        request.before = try arguments.time("--before", now: now)
        request.limit = try arguments.integer("--limit").map { Int($0) }
        if arguments.has("--reverse") { request.order = .newestFirst }
        return request
    }

    static func operation(_ text: String) throws(UsageError) -> HistoryChange.Operation {
        guard let operation = HistoryChange.Operation(rawValue: text) else {
            throw UsageError("--op expects insert, update or delete, not \(text)")
        }
        return operation
    }
}
