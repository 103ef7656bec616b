import PersistentHistory
import TidingsAMQP

enum DoctorCommand: Subcommand {
    static let name = "doctor"
    static let summary = "Try out a broker, and name what is at fault and what helps"
    static let operands: [Operand] = []
    static let options: [Option] = BrokerOption.options + [.flag("--json", "as one JSON object")]
    static let details = """
        Connects, logs in, and sends messages through a queue of its own, which it deletes; each step has a line. \
        \(BrokerOption.details)
        """

    static func run(_ arguments: Arguments) async throws {
        let configuration = try BrokerOption.configuration(arguments, name: "tidings doctor")
        let isJSON = arguments.has("--json")
        var writer = JSONWriter()
        writer.beginObject()
        writer.key("steps")
        writer.beginArray()
        var isWell = true
        for endpoint in configuration.endpoints {
            if !isJSON { print(ReadableText.plain("\(endpoint)")) }
            let examination = BrokerExamination(endpoint, name: configuration.name) { finding in
                if isJSON { writer.finding(finding, endpoint) } else { print(line(finding)) }
            }
            if await !examination.run() { isWell = false }
        }
        writer.endArray()
        writer.key("ok")
        writer.bool(isWell)
        writer.endObject()
        writer.newline()
        if isJSON { Output.write(writer.bytes) }
        guard isWell else { throw CommandError("a step failed: its line tells the fault and what helps") }
    }

    /// At once: a step may take seconds.
    private static func print(_ line: String) {
        Output.line(line)
        Output.flush()
    }

    private static func line(_ finding: BrokerExamination.Finding) -> String {
        let name = finding.step.rawValue
        let gap = String(repeating: " ", count: BrokerExamination.Step.width + 2 - name.count)
        let word = finding.code == nil ? "ok" : "FAULT"
        return "  \(name)\(gap)\(word)" + (finding.message.isEmpty ? "" : ": \(ReadableText.plain(finding.message))")
    }
}

extension JSONWriter {
    /// Writes what came of a step as an object.
    fileprivate mutating func finding(_ finding: BrokerExamination.Finding, _ endpoint: AMQPEndpoint) {
        object { writer in
            writer.key("broker")
            writer.string("\(endpoint)")
            writer.key("step")
            writer.string(finding.step.rawValue)
            writer.key("ok")
            writer.bool(finding.code == nil)
            writer.key("code")
            writer.string(finding.code)
            writer.key("message")
            writer.string(finding.message)
        }
    }
}
