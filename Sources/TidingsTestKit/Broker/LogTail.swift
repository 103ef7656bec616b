internal import FoundationEssentials

/// The end of a program's log, for the message of a failure.
enum LogTail {
    /// The last lines of a file, or what the matter is with it: as many as Erlang needs to get from the cause to the end.
    static func of(_ path: String, lines: Int = 120) -> String {
        guard let data = FileManager.default.contents(atPath: path) else { return "no log at \(path)" }
        let text = String(decoding: data.suffix(65_536), as: UTF8.self)
        let all = text.split(separator: "\n", omittingEmptySubsequences: false)
        return "the end of \(path):\n" + all.suffix(lines).joined(separator: "\n")
    }
}
