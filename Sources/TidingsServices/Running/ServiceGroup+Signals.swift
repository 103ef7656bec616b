internal import HistoryMessaging
internal import PersistentHistory

extension ServiceGroup {
    /// Runs the services until a signal arrives or all of them have ended, then stops them in reverse order.
    ///
    /// They may finish what is under way within the bound. Past it, or at a second signal, they are cancelled: what is
    /// under way is left to the next run, which loses nothing. From then on a further signal acts as it did before the
    /// call, and so ends a program whose services do not even end when cancelled. Returns in each of these cases, so that
    /// the program exits as one that was asked to.
    ///
    /// - Parameters:
    ///   - signals: those that end the services; for the duration of the call in place of who took them before.
    ///   - bound: how long the services may take to end.
    /// - Throws: the first failure of a service; ``MessagingError`` `alreadyRunning` where this process waits for
    ///   signals in another call, `invalid` for a signal that cannot be taken.
    public func run(
        untilSignals signals: [ServiceSignal] = [.term, .int], within bound: Duration = .seconds(8)
    ) async throws {
        let watch = try SignalWatch(signals)
        defer { watch.stop() }
        let (shutdown, asked) = AsyncStream.makeStream(of: Void.self)
        try await withThrowingTaskGroup(of: Bool.self) { tasks in
            tasks.addTask {
                try await run({ for await _ in shutdown {} }, whenAllHaveEnded: { asked.finish() })
                return true
            }
            tasks.addTask {
                await follow(watch, within: bound) { asked.finish() }
                return false
            }
            // The services' end cancels the watching, the watching's end cancels the services.
            var isDone = false
            while !isDone, let next = try await tasks.next() {
                isDone = next
                tasks.cancelAll()
            }
        }
    }

    /// Asks for a shutdown at the first signal; returns at the second one, or past the bound.
    private func follow(_ watch: SignalWatch, within bound: Duration, _ shutdown: () -> Void) async {
        var iterator = watch.signals.makeAsyncIterator()
        guard let first = await iterator.next() else { return }
        logger.log(.info) { HistoryLogEntry("services", "stopping", [("signal", "\(first)")]) }
        shutdown()
        let reason = await withTaskGroup(of: String?.self) { tasks in
            tasks.addTask {
                for await second in watch.signals { return "\(second)" }
                return nil
            }
            tasks.addTask {
                do { try await Task.sleep(for: bound) } catch { return nil }
                return "they took longer than \(DurationText.text(bound))"
            }
            defer { tasks.cancelAll() }
            return await tasks.next() ?? nil
        }
        guard let reason else { return }
        logger.log(.warning) { HistoryLogEntry("services", "cancelling", [("reason", reason)]) }
        watch.stop()
    }
}
