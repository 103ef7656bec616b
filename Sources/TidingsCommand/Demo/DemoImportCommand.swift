import HistoryMessaging
import PersistentHistory
import TidingsSQLite
import TidingsServices

/// One of the demo's three author processes.
enum DemoImportCommand: Subcommand {
    static let name = "demo-import"
    static let summary = "Import a part of the demo's data"
    static let isHidden = true
    static let options: [Option] =
        [
            .value("--author", "A", "whose tables to import", isRequired: true),
            .value("--data", "DIR", "where the JSON files are", isRequired: true),
        ] + ServiceOptions.options

    static func run(_ arguments: Arguments) async throws {
        let settings = try ServiceOptions(arguments)
        let broker = try settings.requiredBroker(name)
        let author = arguments.string("--author") ?? ""
        let data = try DemoData.read(from: arguments.string("--data") ?? "")
        let work = DemoImport(data, author: author)
        try await settings.writing(author: author) { store in
            let publisher = HistoryPublisher(store, broker: broker)
            try await withRunning(publisher, logger: settings.logger) {
                var last: HistoryToken?
                for transaction in work.transactions {
                    last = try await store.write(context: transaction.context) { db in
                        try db.withStatement(transaction.sql) { statement in
                            for row in transaction.rows {
                                for (index, value) in row.enumerated() { try value.bind(to: statement, at: index + 1) }
                                _ = try statement.step()
                                statement.reset()
                            }
                        }
                    }.token
                }
                if let last { try await publisher.waitUntilPublished(through: last) }
            }
            Output.line(String(work.transactions.count))
        }
    }
}
