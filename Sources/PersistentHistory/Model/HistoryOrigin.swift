internal import Glibc

/// Who wrote, to the process and the instance: two contexts of one author in one process have two origins.
public struct HistoryOrigin: Sendable, Hashable, CustomStringConvertible {
    /// `<host>:<process>:<instance>`, as it is stored.
    public let description: String

    /// An origin of this process with an instance number of its own.
    public init() {
        self.init(host: Self.localHost, processID: Int(getpid()), instance: .random(in: .min ... .max))
    }

    /// Makes an origin of its parts.
    public init(host: String, processID: Int, instance: UInt64) {
        description = "\(host):\(processID):\(Hexadecimal.string(instance))"
    }

    /// Reads the stored form, whatever it is.
    init(stored description: String) { self.description = description }

    /// The host's name; empty where the stored form is not of this version.
    public var host: String {
        let parts = description.split(separator: ":", omittingEmptySubsequences: false)
        return parts.count < 3 ? "" : parts.dropLast(2).joined(separator: ":")
    }

    /// The process on that host; nil where the stored form is not of this version.
    public var processID: Int? {
        let parts = description.split(separator: ":", omittingEmptySubsequences: false)
        return parts.count < 3 ? nil : Int(parts[parts.count - 2])
    }

    private static let localHost: String = {
        var buffer = [CChar](repeating: 0, count: 256)
        guard gethostname(&buffer, buffer.count - 1) == 0 else { return "localhost" }
        return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }()
}
