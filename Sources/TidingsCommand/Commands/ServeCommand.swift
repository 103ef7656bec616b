import HistoryMessaging
import PersistentHistory
import TidingsServices

enum ServeCommand: Subcommand {
    static let name = "serve"
    static let summary = "Run the store's services: relay and cleaner"
    static let options = ServiceOptions.options
    static let details = """
        The relay publishes what no author's process publishes itself; the cleaner takes acknowledgements and \
        registrations, and deletes history as the cleaner's strategy says. Which of them run is the key autoStart. \
        With autoStart=cleaner no broker is needed: acknowledgements then come through the store. \
        SIGTERM and SIGINT end them within shutdownTimeout, with exit code 0. \(ServiceOptions.details)
        """

    static func run(_ arguments: Arguments) async throws {
        let settings = try ServiceOptions(arguments)
        let configuration = settings.configuration
        let relays = configuration.autoStart.contains("relay")
        let broker = relays ? try settings.requiredBroker(name) : try settings.broker(name)
        let logger = settings.logger
        try await settings.writing { store in
            var services: [any HistoryService] = []
            for name in configuration.autoStart {
                switch name {
                case "relay":
                    services.append(
                        HistoryRelay(store, broker: broker, options: configuration.relayOptions(logger: logger)))
                case "cleaner":
                    services.append(
                        HistoryCleaner(store, broker: broker, options: configuration.cleanerOptions(logger: logger)))
                default: throw UsageError("autoStart names \(name), which is no service")
                }
            }
            guard !services.isEmpty else { throw UsageError("autoStart is empty: there is nothing to serve") }
            logger.log(.info) {
                HistoryLogEntry(
                    "serve", "started",
                    [("store", store.path), ("services", configuration.autoStart.joined(separator: ","))])
            }
            try await ServiceGroup(services, logger: logger).run(within: configuration.shutdownTimeout)
            logger.log(.info) { HistoryLogEntry("serve", "stopped") }
        }
    }
}
