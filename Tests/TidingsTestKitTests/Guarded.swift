import Foundation
import TidingsTestKit

/// What a private broker has left on the machine.
enum Guarded {
    /// The processes that have to do with a private broker's directory: started for it, or its guardian. What ended and
    /// was not yet reaped, by whom it may concern, is none.
    static func processes(of directory: String) throws -> [Int32] {
        let root = directory.split(separator: "/").first { $0.hasPrefix("tidings-") }.map(String.init) ?? directory
        return try FileManager.default.contentsOfDirectory(atPath: "/proc").compactMap { Int32($0) }.filter { process in
            ["environ", "cmdline"].contains { name in
                let data = FileManager.default.contents(atPath: "/proc/\(process)/\(name)") ?? Data()
                return String(decoding: data, as: UTF8.self).contains(root)
            }
        }
    }

    /// The addresses that processes listen on, as `127.0.0.1:5672` and `[::1]:5672`.
    static func listening(by processes: [Int32]) throws -> [String] {
        let files = FileManager.default
        var sockets: Set<String> = []
        for process in processes {
            let directory = "/proc/\(process)/fd"
            for name in (try? files.contentsOfDirectory(atPath: directory)) ?? [] {
                if let target = try? files.destinationOfSymbolicLink(atPath: "\(directory)/\(name)") {
                    sockets.insert(target)
                }
            }
        }
        return try ["tcp", "tcp6"].flatMap { table in
            try String(contentsOfFile: "/proc/net/\(table)", encoding: .utf8).split(separator: "\n").compactMap {
                line in
                let columns = line.split(separator: " ")
                guard columns.count > 9, columns[3] == "0A", sockets.contains("socket:[\(columns[9])]") else {
                    return nil
                }
                return address(columns[1])
            }
        }
    }

    /// An address as the kernel's tables have it: four bytes at a time in the machine's order.
    private static func address(_ text: Substring) -> String? {
        let parts = text.split(separator: ":")
        guard parts.count == 2, let port = Int(parts[1], radix: 16) else { return nil }
        switch parts[0] {
        case "0100007F": return "127.0.0.1:\(port)"
        case "00000000000000000000000001000000": return "[::1]:\(port)"
        default: return "\(parts[0]):\(port)"
        }
    }
}

/// The end of what a private broker was.
enum Gone {
    /// Waits until no process has to do with the paths any more and their directories are removed; else the time limit
    /// of the test comes. Nobody tells: neither are they children of this process.
    static func wait(for paths: [String]) async throws {
        for path in paths {
            while try FileManager.default.fileExists(atPath: path) || !Guarded.processes(of: path).isEmpty {
                try await Task.sleep(for: .milliseconds(20))
            }
        }
    }
}
