import FoundationEssentials
import PersistentHistory
import TidingsServices

enum ConfigCheckCommand: Subcommand {
    static let name = "config check"
    static let summary = "Print what is configured and who said so, or all that is wrong with it"
    static let operands: [Operand] = [
        .optional("FILE", "the JSON5 file; without it the one that \(TidingsConfiguration.fileVariable) names, or none")
    ]
    static let options: [Option] = [ServiceOptions.keyOption, .flag("--json", "as one JSON object")]
    static let details = """
        An environment variable goes before the file, --set before both. Relative paths start at the working directory. No password is \
        printed: of the broker's URL, its hosts.
        """
    static var appendix: [String] {
        ["Keys, and the variables that set them:", ""]
            + HelpText.table(ConfigurationKey.all.map { ($0.path, $0.variable) })
    }

    static func run(_ arguments: Arguments) async throws {
        let isJSON = arguments.has("--json")
        let file = arguments.operands.first
        if let file {
            guard !file.isEmpty else { throw UsageError("FILE is empty: leave it out, or name the configuration") }
            guard !file.contains("://") else { throw UsageError("FILE expects a file, not a URL") }
        }
        let flags = try ServiceOptions.keys(arguments)
        do throws(ConfigurationError) {
            let configuration = try TidingsConfiguration(file: file, flags: flags)
            if isJSON { Output.write(JSONWriter.document(of: configuration)) } else { print(configuration) }
        } catch {
            if isJSON { Output.write(JSONWriter.document(of: error)) }
            let count = error.problems.count == 1 ? "1 mistake" : "\(error.problems.count) mistakes"
            let lines = error.problems.map { "  " + ReadableText.plain($0.description) }
            throw CommandError("\(count):\n" + lines.joined(separator: "\n"))
        }
    }

    private static func print(_ configuration: TidingsConfiguration) {
        let rows = configuration.entries.map { entry in
            [entry.key.path, ReadableText.plain(entry.shown ?? "(none)"), ReadableText.plain("\(entry.source)")]
        }
        for line in HelpText.columns(rows) { Output.line(line) }
        for warning in configuration.warnings { Output.line("warning: \(ReadableText.plain(warning))") }
    }
}

extension JSONWriter {
    /// Everything that holds, with its source.
    fileprivate static func document(of configuration: TidingsConfiguration) -> [UInt8] {
        document { writer in
            writer.key("ok")
            writer.bool(true)
            writer.key("file")
            writer.string(configuration.file)
            writer.key("values")
            writer.array { writer in
                for entry in configuration.entries { writer.object { $0.members(of: entry) } }
            }
            writer.key("warnings")
            writer.array { writer in
                for warning in configuration.warnings { writer.string(warning) }
            }
        }
    }

    /// All that is wrong.
    fileprivate static func document(of error: ConfigurationError) -> [UInt8] {
        document { writer in
            writer.key("ok")
            writer.bool(false)
            writer.key("errors")
            writer.array { writer in
                for problem in error.problems { writer.object { $0.members(of: problem) } }
            }
        }
    }

    private static func document(_ body: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter()
        writer.object(body)
        writer.newline()
        return writer.bytes
    }

    private mutating func members(of entry: TidingsConfiguration.Entry) {
        key("key")
        string(entry.key.path)
        key("value")
        switch (entry.value, entry.key.type.isSecret) {
        case (nil, _): null()
        case (_?, true): string(entry.shown)
        case (let value?, false): literal(entry.key.type.json(value))
        }
        key("source")
        string("\(entry.source)")
        key("variable")
        string(entry.key.variable)
    }

    private mutating func members(of problem: ConfigurationError.Problem) {
        key("key")
        string(problem.key)
        key("code")
        string(problem.code.description)
        key("place")
        string(problem.place)
        key("message")
        string(problem.message)
    }
}
