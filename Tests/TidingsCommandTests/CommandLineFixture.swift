import Foundation
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

/// A directory with a database, and the built `tidings` to run on it.
struct CommandLineFixture {
    let directory: TemporaryDirectory
    let path: String

    init() throws {
        directory = try TemporaryDirectory()
        path = directory.file("main.db")
    }

    /// The tests' environment without what configures `tidings`.
    private static let environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("TIDINGS_") }

    /// Runs `tidings`.
    static func run(_ arguments: [String], input: String? = nil) async throws -> FinishedProcess {
        try await FinishedProcess.run(
            ChildProcess.built("tidings"), arguments, input: input, environment: environment)
    }

    /// Runs `tidings SUBCOMMAND DB …`.
    func run(_ subcommand: String, _ arguments: String..., input: String? = nil) async throws -> FinishedProcess {
        try await Self.run([subcommand, path] + arguments, input: input)
    }

    /// Runs a line of bash, in which `$0` is `tidings` and `$1` the database.
    func shell(_ line: String) async throws -> FinishedProcess {
        try await FinishedProcess.run(
            "/bin/bash", ["-c", line, ChildProcess.built("tidings"), path], environment: Self.environment)
    }

    /// Runs `tidings` without root's privileges: even root then needs the permissions that the files give.
    func unprivileged(_ arguments: [String]) async throws -> FinishedProcess {
        guard getuid() == 0 else { return try await Self.run(arguments) }
        let drop = ["--bounding-set=-all", "--inh-caps=-all", ChildProcess.built("tidings")]
        return try await FinishedProcess.run(
            "/usr/bin/setpriv", drop + arguments, environment: Self.environment)
    }

    /// Runs SQL past Tidings.
    func sqlite(_ sql: String) async throws {
        let connection = try await SQLiteConnection.open(path, options: OpenOptions(access: .create))
        try await connection.run { db in try db.execute(sql) }
        await connection.close()
    }

    /// Makes a store with these tables, tracked by transaction 1, at a known time.
    func prepare(
        _ schema: String = "CREATE TABLE article(id INTEGER PRIMARY KEY, title TEXT, score REAL)",
        options: TrackingOptions = TrackingOptions(), clock: TestClock = TestClock()
    ) async throws {
        try await writing(as: "setup", clock: clock) { store in
            try await store.migrate { db in try db.execute(schema) }
            try await store.track(.all, options: options)
        }
    }

    /// Writes through the library, at a known time.
    func writing(
        as author: String, clock: TestClock = TestClock(), _ body: (HistoryStore) async throws -> Void
    ) async throws {
        var options = HistoryStore.Options()
        options.clock = clock
        let store = try await HistoryStore.open(path, author: author, create: true, options: options)
        try await body(store)
        await store.close()
    }

    /// A transaction, as the library reads it.
    func transaction(_ sequence: Int64) async throws -> HistoryTransaction {
        let store = try await HistoryStore.openReadOnly(path)
        return try #require(try await store.transaction(sequence))
    }

    /// The store's identity, as the tool prints it.
    func storeID() async throws -> String {
        try await HistoryStore.openReadOnly(path).storeID.uuidString.lowercased()
    }
}

extension FinishedProcess {
    /// The lines of standard output.
    var lines: [String] { output.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init) }
}

/// Expects a program to have done exactly this.
func expect(
    _ run: FinishedProcess, output: String = "", error: String = "", code: Int32 = 0,
    at location: SourceLocation = #_sourceLocation
) {
    #expect(run.output == output, sourceLocation: location)
    #expect(run.error == error, sourceLocation: location)
    #expect(run.ending == .exited(code), sourceLocation: location)
}
