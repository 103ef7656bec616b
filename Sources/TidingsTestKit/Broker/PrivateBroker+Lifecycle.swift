internal import FoundationEssentials
internal import Glibc

extension PrivateBroker {
    /// Kills the broker as `kill -9` does, also a suspended one, and waits until it is gone. Down already, it stays so.
    public func kill() async {
        process?.send(SIGKILL)
        await process?.wait()
    }

    /// Stops the broker as its administrator does, and waits until it is gone. A suspended one is resumed for it.
    ///
    /// - Throws: ``PrivateBrokerError`` where it did not stop within a minute; it is killed then.
    public func stop() async throws {
        guard let process else { return }
        process.send(SIGCONT)
        process.send(SIGTERM)
        guard try await process.wait(atMost: .seconds(60)) else {
            await kill()
            throw PrivateBrokerError("\(nodeName) did not stop within a minute\n\(LogTail.of(log))")
        }
    }

    /// Starts the broker again after ``kill()`` or ``stop()``, with the same ports and data, and waits until it accepts
    /// AMQP.
    ///
    /// - Throws: ``PrivateBrokerError`` with the end of the log where it ends or is not ready within two minutes, and
    ///   where it is running.
    public func start() async throws {
        let process = try launch()
        let end = ContinuousClock.now + .seconds(120)
        while true {
            let isReady = await isReady()
            guard process.ending == nil else {
                let tail = LogTail.of(log)
                throw PrivateBrokerError(
                    "\(nodeName) did not start\n\(tail)", isPortClash: tail.contains("eaddrinuse"))
            }
            if isReady { return }
            guard ContinuousClock.now < end else {
                await kill()
                throw PrivateBrokerError("\(nodeName) was not ready within two minutes\n\(LogTail.of(log))")
            }
            // Nothing tells when a broker is ready but its answer.
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    /// Stops the broker and starts it again.
    public func restart() async throws {
        try await stop()
        try await start()
    }

    /// Stops the broker's process as SIGSTOP does: its connections stay open, and nothing answers. Returns when it
    /// stands still.
    public func suspend() { process?.suspend() }

    /// Lets a suspended broker go on.
    public func resume() { process?.send(SIGCONT) }

    /// Ends the broker for good, and all that belongs to it, and removes its directory. Of a cluster, all its nodes.
    public func shutDown() async {
        await site.directory.end()
        await process?.wait()
    }

    private func isReady() async -> Bool {
        guard FreePort.isListening(port) else { return false }
        // Fails while the node is still coming up.
        return (try? await evaluate("rabbit_boot_state:get()")) == "ready"
    }
}
