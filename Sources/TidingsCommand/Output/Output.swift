import FoundationEssentials
import Glibc
import Synchronization

/// The standard streams.
enum Output {
    private struct State {
        var buffer: [UInt8] = []
        var isClosed = false
    }

    private static let state = Mutex(State())
    private static let bufferSize = 1 << 16

    /// True once whoever read standard output is gone, as `head` is after its lines. Nothing more is written then:
    /// what only prints ends quietly, what also writes to the store goes on.
    static var isClosed: Bool { state.withLock { $0.isClosed } }

    /// Writes a line to standard output, at the latest when the program ends.
    static func line(_ text: String) {
        state.withLock { state in
            state.buffer.append(contentsOf: text.utf8)
            state.buffer.append(0x0A)
            if state.buffer.count >= bufferSize { flush(&state) }
        }
    }

    /// Writes bytes to standard output.
    static func write(_ bytes: [UInt8]) {
        state.withLock { state in
            state.buffer.append(contentsOf: bytes)
            if state.buffer.count >= bufferSize { flush(&state) }
        }
    }

    /// Writes what is waiting.
    static func flush() { state.withLock { state in flush(&state) } }

    /// Writes a line to standard error.
    static func error(_ text: String) { _ = writeAll(Array((text + "\n").utf8), to: STDERR_FILENO) }

    /// Writes to standard error as it is, without a line's end.
    static func raw(_ text: String) { _ = writeAll(Array(text.utf8), to: STDERR_FILENO) }

    private static func flush(_ state: inout State) {
        defer { state.buffer.removeAll(keepingCapacity: true) }
        guard !state.isClosed, let code = writeAll(state.buffer, to: STDOUT_FILENO) else { return }
        // SIGPIPE is ignored, so that the write fails instead.
        guard code == EPIPE else {
            error("tidings: standard output: \(String(cString: strerror(code))): not all was written")
            exit(1)
        }
        state.isClosed = true
    }

    /// Returns the error's number; nil where all was written.
    private static func writeAll(_ bytes: [UInt8], to descriptor: Int32) -> Int32? {
        var done = 0
        while done < bytes.count {
            let written = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress! + done, $0.count - done) }
            if written >= 0 {
                done += written
            } else if errno != EINTR {
                return errno
            }
        }
        return nil
    }
}
