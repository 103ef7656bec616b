import Foundation
import Glibc
import Testing
import TidingsSQLite
import TidingsTestKit

/// A thread without capabilities: on it even root needs the permissions that the files give.
private actor Unprivileged {
    private let executor: ThreadExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe executor.asUnownedSerialExecutor() }

    init() throws { executor = try ThreadExecutor(name: "unprivileged") }

    /// Gives up the capabilities, of this thread alone and until its end. They are looked up by name: the header of
    /// capset(2) belongs to a library that nothing else needs.
    private func drop() throws {
        typealias Capset = @convention(c) (UnsafeMutableRawPointer, UnsafeRawPointer) -> Int32
        let symbol = try #require(unsafe dlsym(nil, "capset"))
        let capset = unsafe unsafeBitCast(symbol, to: Capset.self)
        // _LINUX_CAPABILITY_VERSION_3 and the calling thread; then effective, permitted, inheritable, twice.
        var header: (UInt32, Int32) = (0x2008_0522, 0)
        let none = [UInt32](repeating: 0, count: 6)
        let code = unsafe withUnsafeMutablePointer(to: &header) { header in
            unsafe none.withUnsafeBytes { unsafe capset(header, $0.baseAddress.unsafelyUnwrapped) }
        }
        try #require(code == 0)
    }

    func failure(toOpen path: String, _ access: OpenOptions.Access) throws -> SQLiteError? {
        try drop()
        do throws(SQLiteError) {
            _ = try Database(path: path, options: OpenOptions(access: access, busyTimeout: .zero))
            return nil
        } catch {
            return error
        }
    }
}

@Suite("Files without permission")
struct PermissionTests {
    private let directory: TemporaryDirectory
    private var path: String { directory.file("a.db") }

    init() throws {
        directory = try TemporaryDirectory()
        try Database(path: directory.file("a.db"), options: OpenOptions(access: .create)).execute("CREATE TABLE t(a)")
    }

    private func setMode(_ mode: Int, of path: String) throws {
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
    }

    @Test("a file that may only be read cannot be opened for writing", .timeLimit(.minutes(3)))
    func readOnlyFile() async throws {
        try setMode(0o444, of: path)
        let error = try await Unprivileged().failure(toOpen: path, .readWrite)
        #expect(error?.code == .readOnly)
        #expect(
            error?.message == "cannot open \(path) for writing: the file or its file system is read-only for this user")
        #expect(try await Unprivileged().failure(toOpen: path, .readOnly) == nil)
    }

    @Test("a file that may not be read cannot be opened", .timeLimit(.minutes(3)))
    func unreadableFile() async throws {
        try setMode(0o000, of: path)
        let error = try await Unprivileged().failure(toOpen: path, .readOnly)
        #expect(error?.code == .cannotOpen)
        #expect(error?.message == "cannot open \(path): no permission to read it")
    }

    @Test("no file can be created in a directory that may only be read", .timeLimit(.minutes(3)))
    func readOnlyDirectory() async throws {
        try setMode(0o555, of: directory.path)
        let error = try await Unprivileged().failure(toOpen: directory.file("new.db"), .create)
        try setMode(0o755, of: directory.path)
        #expect(error?.code == .cannotOpen)
        #expect(
            error?.message
                == "cannot create \(directory.file("new.db")): no permission to write in \(directory.path)")
    }

    @Test("a file in a directory that may not be entered is not said to be missing", .timeLimit(.minutes(3)))
    func closedDirectory() async throws {
        try setMode(0o600, of: directory.path)
        let error = try await Unprivileged().failure(toOpen: path, .readOnly)
        try setMode(0o755, of: directory.path)
        #expect(error?.code == .cannotOpen)
        #expect(error?.message == "cannot open \(path): no permission to enter \(directory.path)")
    }
}
