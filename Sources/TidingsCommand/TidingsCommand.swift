import Glibc
import HistoryMessaging
import PersistentHistory
import TidingsAMQP
import TidingsSQLite
import TidingsServices

/// `tidings`: the command-line face of a store. Exit codes: 0 done, 1 failed, 2 usage.
@main
enum TidingsCommand {
    static var subcommands: [any Subcommand.Type] {
        [
            InitCommand.self, TrackCommand.self, UntrackCommand.self, ExecCommand.self, LogCommand.self,
            ShowCommand.self, TailCommand.self, InfoCommand.self, PurgeCommand.self, ServeCommand.self,
            PublishCommand.self,
            ConsumeCommand.self, CleanCommand.self, EvictCommand.self, StatusCommand.self, DoctorCommand.self,
            ConfigCheckCommand.self,
            DemoCommand.self,
            DemoImportCommand.self,
        ]
    }

    static func main() async {
        signal(SIGPIPE, SIG_IGN)
        let code = await run(Array(CommandLine.arguments.dropFirst()))
        Output.flush()
        exit(code)
    }

    private static func run(_ words: [String]) async -> Int32 {
        guard let first = words.first else {
            Output.error(help)
            return 2
        }
        guard first != "--help", first != "-h", first != "help" else {
            Output.line(help)
            return 0
        }
        guard let (subcommand, rest) = subcommand(words) else { return unknown(words) }
        let name = subcommand.name
        do {
            try checkEncoding()
            try await subcommand.run(words: rest)
            return 0
        } catch {
            let (code, text) = ending(of: error, in: name)
            Output.flush()
            Output.error(text)
            return code
        }
    }

    /// How a subcommand ends by an error: the exit code, and what is told.
    static func ending(of error: any Error, in subcommand: String) -> (code: Int32, text: String) {
        if let error = error as? UsageError {
            return (2, "tidings \(subcommand): \(error.message)\nSee `tidings \(subcommand) --help`.")
        }
        return (1, "tidings \(subcommand): \(CommandError.text(of: error))")
    }

    /// The subcommand whose name the words begin with, and the words behind it.
    private static func subcommand(_ words: [String]) -> (any Subcommand.Type, [String])? {
        for subcommand in subcommands {
            let name = subcommand.name.split(separator: " ").map(String.init)
            if words.starts(with: name) { return (subcommand, Array(words.dropFirst(name.count))) }
        }
        return nil
    }

    /// Says which subcommands there are instead: those that begin with the first word, where there are any.
    private static func unknown(_ words: [String]) -> Int32 {
        let group = subcommands.filter { $0.name.hasPrefix("\(words[0]) ") }
        guard !group.isEmpty else {
            // A broker's URL holds a password.
            let shown = words[0].contains("://") ? "by that URL" : words[0]
            Output.error("tidings: there is no subcommand \(shown): `tidings --help` lists them")
            return 2
        }
        let list = (["usage:"] + HelpText.table(group.map { ("tidings \($0.name) …", $0.summary) })).joined(
            separator: "\n")
        guard words.count > 1, ["--help", "-h"].contains(words[1]) else {
            Output.error(list)
            return 2
        }
        Output.line(list)
        return 0
    }

    /// Refuses arguments that are not UTF-8: Swift replaces what is broken, and SQL would then write something else.
    private static func checkEncoding() throws(UsageError) {
        for index in 0..<Int(CommandLine.argc) {
            guard let argument = CommandLine.unsafeArgv[index], String(validatingCString: argument) == nil else {
                continue
            }
            throw UsageError("word \(index) of the command line is not valid UTF-8: convert it first")
        }
    }

    private static var help: String {
        let list = HelpText.table(subcommands.filter { !$0.isHidden }.map { ($0.name, $0.summary) }).joined(
            separator: "\n")
        return """
            usage: tidings SUBCOMMAND …

            Persistent history for SQLite.

            \(list)

            `tidings SUBCOMMAND --help` tells more. Exit codes: 0 done, 1 failed, 2 usage.
            """
    }
}

/// A subcommand could not do what it was asked to: exit code 1.
struct CommandError: Error, CustomStringConvertible {
    let message: String
    init(_ message: String) { self.message = message }

    /// The message.
    var description: String { message }

    /// What any error says to people.
    static func text(of error: any Error, in path: String? = nil) -> String {
        switch error {
        case let error as SQLiteError:
            switch error.code {
            case .full: "\(path ?? "the store"): \(error): free some space, then run it again"
            case .readOnly:
                "\(path ?? "the store"): \(error): give this user write permission on the file and its directory"
            case .busy:
                "\(path ?? "the store"): \(error): another connection holds the lock; run it again when it is done"
            case .corrupt, .inputOutput:
                "\(path ?? "the store"): \(error): check the disk, and restore the file from a backup"
            default: "\(error)"
            }
        case let error as HistoryError:
            // The library's remedies for these two are options, which the command does not have.
            switch error.code {
            case .busy:
                "\(path ?? "the store"): another connection holds the lock; run it again when it is done"
            case .networkFilesystem:
                "\(path ?? "the store") lies on a network file system, where write-ahead logging does not work: "
                    + "move it to a local disk"
            default: error.message
            }
        case let error as CommandError: error.message
        case let error as MessagingError: error.message
        case let error as AMQPError: error.message
        case let error as ConfigurationError: error.message
        default: "\(error)"
        }
    }
}
