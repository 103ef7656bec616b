import Foundation
import Glibc
import HistoryMessaging
import PersistentHistory
import TidingsSQLite

/// The demo: who is started, what is done to them, and what must be true in the end.
struct DemoRun: Sendable {
    /// A consumer, by how it is started and how its view is compared.
    private struct View: Sendable {
        let name: String
        let file: String
        let arguments: [String]
        let entities: Set<String>?
    }

    let directory: String
    let data: String
    let restartCommand: String?
    let broker: Broker
    let brokerArguments: [String]

    private var path: String { "\(directory)/demo.db" }

    private var views: [View] {
        let part: Set<String> = ["country", "subdivision", "currency"]
        let entities = part.sorted().flatMap { ["--entity", $0] }
        return [
            View(name: "replica", file: "replica.db", arguments: ["--into", "\(directory)/replica.db"], entities: nil),
            View(
                name: "atlas", file: "atlas.db", arguments: ["--into", "\(directory)/atlas.db"] + entities,
                entities: part),
            View(
                name: "journal", file: "journal.jsonl",
                arguments: ["--json", "--output", "\(directory)/journal.jsonl"], entities: nil),
        ]
    }

    func run() async throws {
        let data = try DemoData.read(from: data)
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        guard !FileManager.default.fileExists(atPath: path) else {
            throw CommandError("\(path) is there already: name a new directory")
        }
        let store = try await HistoryStore.open(path, author: "setup", create: true)
        try await Stores.lending(store) { store in
            try await store.migrate { db in try db.execute(data.schema) }
            try await store.track(.all)
            Output.line(
                "\(data.recordCount) records of \(data.tables.count) files become \(data.transactionCount) transactions"
            )
            Output.flush()
            try await perform(data, store)
        }
    }

    // MARK: The play

    private func perform(_ data: DemoData, _ store: HistoryStore) async throws {
        let started = ContinuousClock.now
        var cast = DemoCast()
        defer { cast.killAll() }
        do {
            try await play(data, store, &cast)
        } catch is CancellationError {
            throw CommandError("interrupted; the logs are in \(directory)")
        } catch {
            throw CommandError("\(CommandError.text(of: error)); the logs are in \(directory)")
        }
        try await prove(store, since: started)
    }

    private func play(_ data: DemoData, _ store: HistoryStore, _ cast: inout DemoCast) async throws {
        let total = data.transactionCount
        var progress = DemoProgress(total: total, consumers: views.map(\.name))
        cast.service = try start("serve", serveArguments)
        for view in views { cast.consumers[view.name] = try start(view.name, arguments(of: view)) }
        try await wait("consumers registered", store, &progress, cast) { $0.consumers.count == views.count }
        progress.note("\(views.count) consumers are registered; \(DemoData.authors.joined(separator: ", ")) import")
        for author in DemoData.authors {
            cast.authors.append(
                try start(author, ["demo-import", path, "--author", author, "--data", self.data] + brokerArguments))
        }
        try await wait("a third", store, &progress, cast) { $0.written >= total / 3 }
        try await killAndRestart(views[0], &cast, &progress)
        try await wait("half", store, &progress, cast) { $0.written >= total / 2 }
        async let restart: Void = restartBroker()
        progress.note("the broker is restarted; nobody stops writing")
        try await wait("imports done", store, &progress, cast) { [authors = cast.authors] in
            $0.written >= total && authors.allSatisfy { !$0.isRunning }
        }
        progress.note("everything is written")
        try await restart
        try await wait("everything merged", store, &progress, cast) {
            $0.published == $0.head && $0.acknowledged.values.allSatisfy { [head = $0.head] in $0 == head }
        }
        try await settle(store, &progress, &cast)
    }

    private var serveArguments: [String] {
        ["serve", path, "--set", "cleaner.strategy=duration", "--set", "cleaner.interval=2s"] + brokerArguments
    }

    private func arguments(of view: View) -> [String] {
        ["consume", path, "--author", "views", "--consumer", view.name, "--report", "\(directory)/\(view.name).report"]
            + view.arguments + brokerArguments
    }

    private func start(_ name: String, _ arguments: [String]) throws -> DemoProcess {
        try DemoProcess(name, arguments, log: "\(directory)/\(name).log")
    }

    private func killAndRestart(_ view: View, _ cast: inout DemoCast, _ progress: inout DemoProgress) async throws {
        guard let victim = cast.consumers[view.name] else { return }
        victim.send(SIGKILL)
        try await victim.wait(within: .seconds(5))
        progress.note("\(view.name) was killed (-9 \(victim.processID)) and is started again")
        // What it has measured until then would be overwritten.
        rename("\(directory)/\(view.name).report", "\(directory)/\(view.name).first.report")
        cast.consumers[view.name] = try start(view.name, arguments(of: view))
    }

    private func restartBroker() async throws {
        guard let restartCommand else { return }
        let command = "exec > \"$DEMO_LOG\" 2>&1; \(restartCommand)"
        let environment = ["DEMO_LOG": "\(directory)/restart.log"]
        let ending = try await ShellCommand(command, environment: environment).wait()
        guard ending == .exited(0) else { throw CommandError("the broker's restart \(ending)") }
    }

    /// Ends consumers, cleans what is left to clean, ends the service.
    private func settle(_ store: HistoryStore, _ progress: inout DemoProgress, _ cast: inout DemoCast) async throws {
        progress.note("every consumer has acknowledged the newest transaction")
        for consumer in cast.consumers.values { consumer.send(SIGTERM) }
        for consumer in cast.consumers.values { try await ended(consumer) }
        let cleaning = try start("clean", ["clean", path])
        try await ended(cleaning)
        cast.service?.send(SIGTERM)
        if let service = cast.service { try await ended(service) }
        progress.clear()
    }

    private func ended(_ process: DemoProcess) async throws {
        try await process.wait(within: .seconds(20))
        if let failure = process.failure { throw CommandError(failure) }
    }

    /// Shows how far everybody is until something holds; fails where a process has failed, or it takes too long.
    private func wait(
        _ what: String, _ store: HistoryStore, _ progress: inout DemoProgress, _ cast: DemoCast,
        until isDone: (DemoState) -> Bool
    ) async throws {
        let end = ContinuousClock.now + .seconds(90)
        while true {
            let state = try await DemoState.read(store)
            progress.show(state)
            if isDone(state) { return }
            if let failure = cast.failure { throw CommandError(failure) }
            guard ContinuousClock.now < end else { throw CommandError("waiting for \(what) took longer than 90 s") }
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    // MARK: The proof

    private func prove(_ store: HistoryStore, since started: ContinuousClock.Instant) async throws {
        var proofs: [(view: String, proof: DemoProof)] = []
        Output.line("")
        Output.line("view       rows    differ  merged   lag p50    lag p99")
        for view in views {
            let proof =
                view.file.hasSuffix(".jsonl")
                ? try await DemoProof.lines("\(directory)/\(view.file)", store)
                : try await DemoProof.database("\(directory)/\(view.file)", store, entities: view.entities)
            proofs.append((view.name, proof))
            Output.line(try line(view, proof))
        }
        let state = try await DemoState.read(store)
        let verdict = DemoVerdict(
            proofs: proofs, head: state.head, published: state.published,
            acknowledged: state.acknowledged.values.min() ?? 0, purged: state.purged,
            time: ContinuousClock.now - started)
        Output.line("")
        Output.line(
            "history: \(state.head) transactions committed, \(state.published) published, oldest acknowledged "
                + "\(verdict.acknowledged), cleaned up to \(state.purged)")
        Output.line("time: \(DemoVerdict.seconds(verdict.time)) s")
        try verdict.check()
        Output.line("every view equals the store, and history is cleaned up to the oldest acknowledged token")
    }

    private func line(_ view: View, _ proof: DemoProof) throws -> String {
        var lag = LagHistogram()
        for file in ["\(view.name).first.report", "\(view.name).report"] {
            let path = "\(directory)/\(file)"
            if FileManager.default.fileExists(atPath: path) { lag.add(try ConsumeReport.read(path).lag) }
        }
        let columns = [
            (view.name, 9), ("\(proof.rows)", 6), ("\(proof.differences)", 6), ("\(lag.total)", 7),
            (milliseconds(lag.quantile(0.5)), 9), (milliseconds(lag.quantile(0.99)), 9),
        ]
        return columns.map { $0.0.padded(to: $0.1) }.joined(separator: "  ")
    }

    private func milliseconds(_ duration: Duration?) -> String {
        guard let duration else { return "-" }
        let microseconds = duration.components.attoseconds / 1_000_000_000_000 + duration.components.seconds * 1_000_000
        return microseconds < 10_000 ? "\(Double(microseconds / 10) / 100) ms" : "\(microseconds / 1000) ms"
    }
}

/// The processes of the demo.
struct DemoCast {
    var service: DemoProcess?
    var consumers: [String: DemoProcess] = [:]
    var authors: [DemoProcess] = []

    /// The first that has failed.
    var failure: String? {
        ([service].compactMap(\.self) + consumers.values + authors).lazy.compactMap(\.failure).first
    }

    /// Leaves nobody behind.
    func killAll() {
        for process in [service].compactMap(\.self) + consumers.values + authors { process.send(SIGKILL) }
    }
}
