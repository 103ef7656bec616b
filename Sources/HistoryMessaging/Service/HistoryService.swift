/// Something that runs until it is told to stop: a publisher, a consumer, a cleaner.
public protocol HistoryService: Sendable {
    /// What it is, for logs: `consumer orders-1`.
    var serviceName: String { get }

    /// Works until ``stop()`` or a cancellation.
    ///
    /// Throws ``MessagingError`` `alreadyRunning` where it runs already, and what it cannot go on from. A cancellation
    /// ends it at the next safe place, without finishing what is under way.
    func run() async throws

    /// Finishes what is under way, ends ``run()``, and returns when that has returned. Harmless where nothing runs; a later
    /// ``run()`` goes on where this one ended.
    func stop() async
}
