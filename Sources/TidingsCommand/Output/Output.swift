import Foundation
import Synchronization

/// The standard streams. A reader of standard output that has gone ends the program quietly.
enum Output {
    private static let buffer = Mutex<[UInt8]>([])

    /// Writes a line to standard output, at the latest when the program ends.
    static func line(_ text: String) { write(Array(text.utf8) + [0x0A]) }

    /// Writes bytes to standard output.
    static func write(_ bytes: [UInt8]) {
        let full = buffer.withLock { buffer -> [UInt8]? in
            buffer += bytes
            guard buffer.count >= 1 << 16 else { return nil }
            defer { buffer.removeAll(keepingCapacity: true) }
            return buffer
        }
        if let full { writeAll(full, to: STDOUT_FILENO) }
    }

    /// Writes what is waiting.
    static func flush() {
        let rest = buffer.withLock { buffer in
            defer { buffer.removeAll() }
            return buffer
        }
        writeAll(rest, to: STDOUT_FILENO)
    }

    /// Writes a line to standard error.
    static func error(_ text: String) { writeAll(Array((text + "\n").utf8), to: STDERR_FILENO) }

    private static func writeAll(_ bytes: [UInt8], to descriptor: Int32) {
        var done = 0
        while done < bytes.count {
            let written = bytes[done...].withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress, $0.count) }
            if written < 0, errno == EINTR { continue }
            // EPIPE: whoever read is gone, as `head` is after its lines. SIGPIPE is ignored.
            guard written > 0 else { exit(errno == EPIPE ? 0 : 1) }
            done += written
        }
    }
}
