import Foundation
import PersistentHistory

enum LogCommand: Subcommand {
    static let name = "log"
    static let summary = "List transactions and their changes"
    static let operands = "DB"
    static let operandCount = 1...1
    static let options: [Option] = [
        .value("--after", "N", "only transactions after this sequence"),
        .value("--until", "N", "only transactions up to this sequence, itself included"),
        .value("--author", "A", "only this author", isRepeatable: true),
        .value("--not-author", "A", "not this author", isRepeatable: true),
        .value("--entity", "E", "only changes of this entity", isRepeatable: true),
        .value("--op", "OP", "only insert, update or delete", isRepeatable: true),
        .value("--object", "ENTITY:KEY", "only changes of this object; a key of several columns as a=1,b=x"),
        .value("--since", "TIME", "only at or after this time, by the writers' clocks"),
        .value("--before", "TIME", "only before this time"),
        .value("--limit", "N", "at most so many transactions"),
        .flag("--reverse", "newest first"),
        .flag("--count", "print the number of transactions only"),
        .flag("--json", "one JSON object a line"),
    ]
    static let details = "TIME is RFC 3339 in UTC or with an offset, or an age such as 7d, 12h, 30m, 45s."

    static func run(_ arguments: Arguments) async throws {
        var request = try request(arguments)
        let store = try await Stores.openForReading(arguments.operands[0])
        if let sequence = try arguments.integer("--after"), sequence > 0 {
            request.start = .token(try await start(after: sequence, store))
        }
        if let text = arguments.string("--object") { request.objects = try await ObjectOption.parse(text, store) }
        if arguments.has("--count") {
            Output.line(String(try await store.count(request)))
        } else {
            let printer: any TransactionPrinter = arguments.has("--json") ? JSONPrinter() : TextPrinter()
            for try await transaction in store.history(request) { try await printer.print(transaction) }
        }
        await store.close()
    }

    /// The token behind which to begin; the purge mark has one though its transaction is gone.
    private static func start(after sequence: Int64, _ store: HistoryStore) async throws -> HistoryToken {
        let oldest = try await store.oldestToken()
        return sequence == oldest.sequence ? oldest : try await Stores.transaction(sequence, in: store).token
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

    private static func operation(_ text: String) throws(UsageError) -> HistoryChange.Operation {
        guard let operation = HistoryChange.Operation(rawValue: text) else {
            throw UsageError("--op expects insert, update or delete, not \(text)")
        }
        return operation
    }
}
