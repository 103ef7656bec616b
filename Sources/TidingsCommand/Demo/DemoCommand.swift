import Dispatch
import Foundation
import Glibc
import HistoryMessaging
import PersistentHistory

enum DemoCommand: Subcommand {
    static let name = "demo"
    static let summary = "Run the main job on real data, with crashes, and prove the result"
    static let operands = [Operand.one("DIR", "a directory for the store, the views and the logs")]
    static let options: [Option] =
        [
            .value("--data", "DIR", "the JSON files of iso-codes (\(DemoData.directory))"),
            .value("--restart-broker", "CMD", "a shell command that restarts the broker, run half way"),
        ] + ServiceOptions.options
    static let details = """
        Three processes import the files into one store, three consumers keep a view each, one of which is killed and \
        started again, and a service relays and cleans. Exit code 1 where a view differs from the store, history was not \
        cleaned up to the oldest acknowledgement, or it took longer than two minutes. `Config/demo` does the rest: it starts \
        a broker, and calls this.
        """

    static func run(_ arguments: Arguments) async throws {
        let settings = try ServiceOptions(arguments)
        let run = DemoRun(
            directory: arguments.operands[0], data: arguments.string("--data") ?? DemoData.directory,
            restartCommand: arguments.string("--restart-broker"), broker: try settings.requiredBroker(name),
            brokerArguments: try brokerArguments(arguments))
        try await Self.untilSignalled { try await run.run() }
    }

    /// Runs until it is done, or a signal ends it: then nobody of the demo's processes stays.
    private static func untilSignalled(_ body: @escaping @Sendable () async throws -> Void) async throws {
        let task = Task { try await body() }
        let sources = [SIGINT, SIGTERM].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number)
            source.setEventHandler { task.cancel() }
            source.resume()
            return source
        }
        defer { for source in sources { source.cancel() } }
        try await task.value
    }

    /// What the demo's processes are told of the broker: never the URL itself, which everybody would see.
    private static func brokerArguments(_ arguments: Arguments) throws(UsageError) -> [String] {
        guard let file = arguments.string("--broker-file") else {
            throw UsageError("name the broker by --broker-file FILE: the demo's processes read it too")
        }
        // The broker is restarted under them: for a demonstration they look for it often.
        return ["--broker-file", file, "--set", "broker.longestRetry=1s"]
    }
}
