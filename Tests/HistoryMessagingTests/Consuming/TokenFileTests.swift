import Foundation
import Glibc
import PersistentHistory
import Testing
import TidingsTestKit

@testable import HistoryMessaging

@Suite("Token file", .timeLimit(.minutes(2)))
struct TokenFileTests {
    private let directory: TemporaryDirectory
    private var path: String { directory.file("tokens/c.token") }

    init() throws { directory = try TemporaryDirectory() }

    private func token(_ sequence: Int64) -> StoredToken {
        StoredToken(
            token: HistoryToken(storeID: UUID(), epoch: 3, sequence: sequence, nonce: .max - UInt64(sequence)),
            reloadedThrough: sequence + 7)
    }

    private func open() async throws -> (file: TokenFile, found: TokenFile.Found) {
        try await TokenFile.open(directory: directory.file("tokens"), consumer: "c")
    }

    @Test("What was written last is found")
    func roundTrip() async throws {
        let (file, found) = try await open()
        #expect(found == .nothing)
        let written = (1...5).map { token($0) }
        for content in written {
            try await file.write(content)
            await file.close()
            // A new one each time, since this one is closed.
            let (next, found) = try await open()
            #expect(found == .stored(content) || found == .nothing)
            await next.close()
            break
        }
        let (again, _) = try await open()
        for content in written { try await again.write(content) }
        await again.close()
        #expect(try await open().found == .stored(written[4]))
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.file("tokens")) == ["c.token"])
    }

    @Test("A file that was made and never written has no token")
    func unwritten() async throws {
        await (try open()).file.close()
        #expect(try await open().found == .stored(StoredToken()))
    }

    @Test("Every single flipped bit of the newer slot leaves the older one; of both, damage")
    func flippedBits() async throws {
        let (file, _) = try await open()
        let (older, newer) = (token(1), token(2))
        try await file.write(older)
        try await file.write(newer)
        await file.close()
        let bytes = [UInt8](try Data(contentsOf: URL(filePath: path)))
        let slots = (0..<2).map { TokenLayout.offset(ofSlot: $0) }
        #expect(TokenLayout.read(bytes)?.slot.content == newer)
        let index = try #require(TokenLayout.read(bytes)).index
        for bit in 0..<TokenSlot.size * 8 {
            var damaged = bytes
            damaged[slots[index] + bit / 8] ^= 1 << (bit % 8)
            #expect(TokenLayout.read(damaged)?.slot.content == older)
            damaged[slots[1 - index] + (bit * 7 % (TokenSlot.size * 8)) / 8] ^= 1 << (bit % 8)
            #expect(TokenLayout.read(damaged) == nil)
        }
    }

    @Test("Truncated, extended, emptied, or another file: damaged, and said why", arguments: Damage.all)
    func damage(_ damage: Damage) async throws {
        let (file, _) = try await open()
        try await file.write(token(1))
        await file.close()
        try damage.apply(path)
        let (renewed, found) = try await open()
        #expect(found == .damaged(damage.reason))
        try await renewed.renew(token(9))
        await renewed.close()
        guard case .stored(let stored) = try await open().found else {
            Issue.record("not renewed")
            return
        }
        #expect(stored.token?.sequence == 9)
    }

    @Test("A second opening is refused, naming the first one's process and host; after it is closed it is not")
    func locked() async throws {
        let (file, _) = try await open()
        let error = await #expect(throws: MessagingError.self) { _ = try await open() }
        #expect(error?.code == .inUse)
        #expect(error?.message.contains("process \(getpid()) on \(HistoryOrigin().host)") == true)
        await file.close()
        #expect(try await open().found == .stored(StoredToken()))
    }

    @Test("A directory that cannot be made is an error that names it")
    func noDirectory() async throws {
        let error = await #expect(throws: MessagingError.self) {
            _ = try await TokenFile.open(directory: "/proc/nowhere", consumer: "c")
        }
        #expect(error?.code == .tokenFile)
        #expect(error?.message.contains("/proc/nowhere") == true)
    }

    /// The file's descriptor in this process.
    private func descriptor() throws -> Int32 {
        let own = "/proc/self/fd"
        let suffix = "\(URL(filePath: directory.path).lastPathComponent)/tokens/c.token"
        let name = try FileManager.default.contentsOfDirectory(atPath: own).first { name in
            let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "\(own)/\(name)")
            return target?.hasSuffix(suffix) == true
        }
        return try #require(name.flatMap { Int32($0) })
    }

    @Test(
        "After a write that failed as it was synced, what the file is to hold is written again, though it is no other")
    func unsynced() async throws {
        let temporary = try await TemporaryStore()
        let (file, _) = try await open()
        let acknowledger = HistoryAcknowledger(
            temporary.store, name: "c", author: "a", link: nil, options: .init(), board: ConsumerBoard(), file: file,
            isDamaged: false)
        func latest() throws -> TokenSlot? {
            TokenLayout.read([UInt8](try Data(contentsOf: URL(filePath: path))))?.slot
        }
        let (ahead, behind) = (token(10), token(3))
        try await acknowledger.remember(ahead)
        let generation = try #require(try latest()?.generation)
        // A device that takes what is written to it, and cannot be synced.
        let descriptor = try descriptor()
        let (kept, null) = (dup(descriptor), Glibc.open("/dev/null", O_RDWR))
        dup2(null, descriptor)
        let error = await #expect(throws: MessagingError.self) { try await acknowledger.remember(behind) }
        #expect(error?.message.contains("syncing it") == true)
        dup2(kept, descriptor)
        for other in [kept, null] { Glibc.close(other) }
        // Everything is where it was; nobody knows of the file.
        #expect(await acknowledger.token == ahead.token)
        try await acknowledger.remember(ahead)
        #expect(try latest() == TokenSlot(generation: generation + 1, content: ahead))
        try await acknowledger.remember(ahead)
        #expect(try latest()?.generation == generation + 1)
        await file.close()
    }

    @Test("A name with slashes and dots is a file in the directory all the same")
    func escaped() async throws {
        let (file, _) = try await TokenFile.open(directory: directory.path, consumer: "../a/b")
        await file.close()
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path) == ["%2E%2E%2Fa%2Fb.token"])
    }
}

/// What happens to a token file.
struct Damage: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let reason: String
    let apply: @Sendable (String) throws -> Void

    static let all = [
        Damage(testDescription: "truncated", reason: "its size is 5000, not 12288") { path in
            try write([UInt8](Data(contentsOf: URL(filePath: path)).prefix(5000)), path)
        },
        Damage(testDescription: "emptied", reason: "its size is 0, not 12288") { try write([], $0) },
        Damage(testDescription: "extended", reason: "its size is 12289, not 12288") { path in
            try write([UInt8](Data(contentsOf: URL(filePath: path))) + [0], path)
        },
        Damage(testDescription: "zeroed", reason: "it does not begin as one") { path in
            try write([UInt8](repeating: 0, count: 12288), path)
        },
        Damage(testDescription: "slots zeroed", reason: "neither of its slots is whole") { path in
            let bytes = [UInt8](try Data(contentsOf: URL(filePath: path)))
            try write(bytes.prefix(4096) + [UInt8](repeating: 0, count: 8192), path)
        },
        Damage(testDescription: "something else", reason: "it does not begin as one") { path in
            try write([UInt8](repeating: 0x41, count: 12288), path)
        },
    ]

    static func write(_ bytes: some Sequence<UInt8>, _ path: String) throws {
        try Data(bytes).write(to: URL(filePath: path))
    }
}
