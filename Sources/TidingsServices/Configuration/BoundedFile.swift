internal import Glibc

/// A file cannot be read: why, without its name and its content.
struct FileError: Error {
    let message: String
}

/// Files that are small, or refused.
enum BoundedFile {
    /// The text of a file.
    static func text(_ path: String, limit: Int) throws(FileError) -> String {
        // A named pipe that nobody writes to must not stop the program.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw failure() }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: limit + 1)
        var count = 0
        while count < bytes.count {
            let part = bytes[count...].withUnsafeMutableBytes { read(descriptor, $0.baseAddress, $0.count) }
            if part < 0, errno == EINTR { continue }
            guard part >= 0 else { throw failure() }
            guard part > 0 else { break }
            count += part
        }
        guard count <= limit else { throw FileError(message: "larger than \(ByteSize.text(limit)): not what is meant") }
        guard let text = String(validating: bytes[..<count], as: UTF8.self) else {
            throw FileError(message: "not UTF-8 text: save it as such")
        }
        return text
    }

    /// Whether every user may read a file.
    static func isOpenToOthers(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IROTH != 0
    }

    private static func failure() -> FileError {
        switch errno {
        case ENOENT: FileError(message: "there is no such file: check the path")
        case EACCES: FileError(message: "may not be read: give this user permission")
        case let code: FileError(message: "cannot be read (\(String(cString: strerror(code)))): check the path")
        }
    }
}
