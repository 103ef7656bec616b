import Foundation

/// A directory for one run, which goes with the object.
final class ScratchDirectory: Sendable {
    let path: String

    init(in parent: String) throws {
        path = "\(parent)/tidings-benchmark-\(getpid())-\(UInt32.random(in: 0 ... .max))"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    func file(_ name: String) -> String { "\(path)/\(name)" }

    /// Copies a database that nobody has open, in place of another.
    func copy(_ source: String, to name: String) throws -> String {
        let target = file(name)
        for suffix in ["", "-wal", "-shm"] {
            try? FileManager.default.removeItem(atPath: target + suffix)
        }
        try FileManager.default.copyItem(atPath: source, toPath: target)
        return target
    }

    static func size(of path: String) -> Int {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        return attributes?[.size] as? Int ?? 0
    }
}
