internal import FoundationEssentials

/// A directory of its own for a test, removed with all that is in it when the object goes.
///
/// It lies in the directory that `TMPDIR` names, or in `/tmp`.
///
/// ```swift
/// let directory = try TemporaryDirectory()
/// let connection = try await SQLiteConnection.open(directory.file("main.db"), options: OpenOptions(access: .create))
/// ```
public final class TemporaryDirectory: Sendable {
    /// The absolute path, without a slash at the end.
    public let path: String

    /// Makes the directory, for the current user alone. Throws where the file system refuses.
    public init() throws {
        let url = FileManager.default.temporaryDirectory.appending(path: "tidings-\(UUID().uuidString)")
        try FileManager.default.createDirectory(
            at: url, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        path = url.path(percentEncoded: false)
    }

    // A link is removed, not followed. What cannot be removed stays: a test must not fail over it.
    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// The path of a file in the directory; it need not exist.
    public func file(_ name: String) -> String { "\(path)/\(name)" }
}
