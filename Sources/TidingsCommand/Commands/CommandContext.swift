import Foundation
import Glibc
import PersistentHistory

/// Runs a shell command for each batch, with one JSON object a transaction as its standard input.
///
/// The input is a file without a name, not a pipe: a command that does not read all of it holds up nobody, and a batch of
/// any size needs no memory.
struct CommandContext: MergeContext {
    let name = "command"
    private let command: String

    init(_ command: String) { self.command = command }

    func merge(_ batch: HistoryBatch) async throws {
        guard !batch.transactions.isEmpty else { return }
        let input = try await input(of: batch)
        defer { try? input.close() }
        let environment = [
            "TIDINGS_TOKEN": batch.token.description, "TIDINGS_SEQUENCE": "\(batch.token.sequence)",
        ]
        let ending = try await ShellCommand(command, input: input.fileDescriptor, environment: environment).wait()
        guard ending == .exited(0) else { throw CommandError("the command \(ending)") }
    }

    private func input(of batch: HistoryBatch) async throws -> FileHandle {
        let directory = ProcessInfo.processInfo.environment["TMPDIR"] ?? "/tmp"
        var name = Array("\(directory)/tidings.XXXXXX".utf8CString)
        let descriptor = mkstemp(&name)
        guard descriptor >= 0 else {
            throw CommandError("no temporary file in \(directory): \(String(cString: strerror(errno)))")
        }
        // From here on it has no name: whatever happens, nothing stays.
        unlink(name)
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var writer = TransactionLineWriter()
        for transaction in batch.transactions {
            try await writer.write(transaction) { bytes in
                try file.write(contentsOf: Data(bytes))
                return true
            }
        }
        try file.seek(toOffset: 0)
        return file
    }
}
