import PersistentHistory

enum StatusCommand: Subcommand {
    static let name = "status"
    static let summary = "Tell how far publishing, consumers and cleaning have come"
    static let options: [Option] = ServiceOptions.options + [.flag("--json", "as one JSON object")]
    static let details = """
        From the store, and from the broker's queues where a broker is configured. \(ServiceOptions.details)
        """

    static func run(_ arguments: Arguments) async throws {
        let settings = try ServiceOptions(arguments)
        let broker = try settings.broker(name)
        let status = try await Stores.reading(settings.path()) { store in
            try await StoreStatus.read(store, broker)
        }
        if arguments.has("--json") {
            var writer = JSONWriter()
            writer.status(status)
            writer.newline()
            Output.write(writer.bytes)
        } else {
            for line in status.lines { Output.line(ReadableText.plain(line)) }
        }
    }
}
