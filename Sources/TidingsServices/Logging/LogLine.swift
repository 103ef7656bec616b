internal import PersistentHistory
internal import TidingsSQLite

/// An entry as a line of logfmt. [Its form](https://brandur.org/logfmt)
enum LogLine {
    /// A pipe takes so many bytes at once or none of them: lines of several processes do not mix (PIPE_BUF).
    static let longest = 4096

    /// The line with its end.
    static func bytes(_ level: HistoryLogLevel, _ entry: HistoryLogEntry, microseconds: Int64) -> [UInt8] {
        var line: [UInt8] = []
        append("time", RFC3339.string(microseconds: microseconds), to: &line)
        append("level", level.name, to: &line)
        append("service", entry.service, to: &line)
        append("msg", entry.message, isQuoted: true, to: &line)
        for field in entry.fields where line.count < longest { append(name(field.name), field.value, to: &line) }
        cut(&line)
        line.append(0x0A)
        return line
    }

    private static func append(_ name: String, _ value: String, isQuoted: Bool = false, to line: inout [UInt8]) {
        if !line.isEmpty { line.append(0x20) }
        line.append(contentsOf: name.utf8)
        line.append(0x3D)
        let isWord =
            !value.isEmpty && value.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != 0x22 && $0 != 0x3D && $0 != 0x5C }
        guard isQuoted || !isWord else {
            line.append(contentsOf: value.utf8)
            return
        }
        line.append(0x22)
        for scalar in value.unicodeScalars {
            append(scalar, to: &line)
            // What is behind will be cut.
            if line.count > longest { break }
        }
        line.append(0x22)
    }

    private static func append(_ scalar: Unicode.Scalar, to line: inout [UInt8]) {
        switch scalar {
        case "\"": line.append(contentsOf: #"\""#.utf8)
        case "\\": line.append(contentsOf: #"\\"#.utf8)
        case "\n": line.append(contentsOf: #"\n"#.utf8)
        case "\r": line.append(contentsOf: #"\r"#.utf8)
        case "\t": line.append(contentsOf: #"\t"#.utf8)
        default:
            switch scalar.properties.generalCategory {
            // What steers a terminal or turns the direction of text.
            case .control, .format, .lineSeparator, .paragraphSeparator:
                line.append(contentsOf: "\\u{\(String(scalar.value, radix: 16))}".utf8)
            default: line.append(contentsOf: UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
            }
        }
    }

    /// A name as a key: whatever would end it becomes an underscore.
    private static func name(_ name: String) -> String {
        let characters = name.utf8.map { byte -> UInt8 in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F: byte
            default: 0x5F
            }
        }
        return characters.isEmpty ? "_" : String(decoding: characters, as: UTF8.self)
    }

    /// Shortens a line to what fits, between two characters.
    private static func cut(_ line: inout [UInt8]) {
        let mark = Array("…".utf8)
        guard line.count > longest - 1 else { return }
        var end = longest - 1 - mark.count
        // Bytes of the form 10xxxxxx are within a character.
        while end > 0, line[end] & 0xC0 == 0x80 { end -= 1 }
        line.removeSubrange(end...)
        line.append(contentsOf: mark)
    }
}
