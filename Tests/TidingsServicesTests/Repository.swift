import Foundation

@testable import TidingsServices

/// The files of the package.
enum Repository {
    static func text(_ path: String) throws -> String { try String(contentsOfFile: full(path), encoding: .utf8) }

    /// The text of a file that is written from the table of keys. With `TIDINGS_WRITE_GOLDEN=1` it is written
    /// first, behind a mark that stays: for whoever has changed the table.
    static func text(_ path: String, expected: String, behind mark: String = "") throws -> String {
        let text = try text(path)
        guard ProcessInfo.processInfo.environment["TIDINGS_WRITE_GOLDEN"] == "1" else { return text }
        let head = mark.isEmpty ? "" : (text.components(separatedBy: mark).first ?? "") + mark
        try (head + expected).write(toFile: full(path), atomically: true, encoding: .utf8)
        return head + expected
    }

    private static func full(_ path: String) -> String {
        // This file lies three levels down.
        "/" + #filePath.split(separator: "/").dropLast(3).joined(separator: "/") + "/" + path
    }
}

extension TidingsConfiguration {
    /// A configuration of a text, as if it were in a file called `test.json5`.
    init(text: String, environment: [String: String] = [:], flags: [String: String] = [:]) throws(ConfigurationError) {
        var reader = ConfigurationReader()
        reader.read(text: text, file: "test.json5")
        reader.read(environment: environment)
        reader.read(flags: flags)
        let entries = try reader.finish()
        self.init(file: "test.json5", entries, warnings: reader.warnings)
    }
}
