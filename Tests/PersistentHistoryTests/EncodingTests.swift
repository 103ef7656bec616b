import Foundation
import Testing
import TidingsSQLite
import TidingsTestKit

@testable import PersistentHistory

@Suite("Encoding", .timeLimit(.minutes(5)))
struct EncodingTests {
    @Test(
        "the bytes written today are those of the golden files, and decode to what these say",
        arguments: GoldenFile.names)
    func golden(name: String) async throws {
        var golden = try GoldenFile(name)
        let written = try await golden.written()
        if ProcessInfo.processInfo.environment["TIDINGS_WRITE_GOLDEN"] == "1" { try golden.rewrite(written) }
        for section in ["layouts", "changes", "decoded"] {
            #expect(written[section] == golden.sections[section], "\(section)")
        }
        #expect(
            try GoldenFile.decode(golden.bytes, golden.layouts).joined(separator: "\n") == golden.sections["decoded"])
        #expect(golden.bytes.count > 10)
    }

    @Test("every truncation of a golden file is an error, or ends where a record ends", arguments: GoldenFile.names)
    func truncations(name: String) throws {
        let golden = try GoldenFile(name)
        let layouts = try golden.layouts
        let bytes = golden.bytes
        let whole = try GoldenFile.decode(bytes, layouts)
        var errors = 0
        var prefixes: Set<Int> = []
        for length in 0..<bytes.count {
            do {
                let decoded = try GoldenFile.decode(Array(bytes[..<length]), layouts)
                #expect(decoded == Array(whole.prefix(decoded.count)))
                prefixes.insert(decoded.count)
            } catch let error as HistoryError {
                #expect(error.code == .damagedHistory)
                errors += 1
            }
        }
        // No bytes, the version alone, and each record but the last: these are whole, all else is not.
        #expect(prefixes == Set(0..<whole.count))
        #expect(errors == bytes.count - whole.count - 1)
    }

    @Test(
        "25,000 random mutations of each golden file decode or are an error, and never trap",
        arguments: GoldenFile.names)
    func mutations(name: String) throws {
        let golden = try GoldenFile(name)
        let layouts = try golden.layouts
        var random = SeededGenerator(seed: 42)
        var errors = 0
        for _ in 0..<25_000 {
            let bytes = Self.mutated(golden.bytes, &random)
            do {
                _ = try GoldenFile.decode(bytes, layouts)
            } catch let error as HistoryError {
                #expect(error.code == .damagedHistory)
                errors += 1
            }
        }
        #expect(errors > 5000)
    }

    private static func mutated(_ original: [UInt8], _ random: inout SeededGenerator) -> [UInt8] {
        var bytes = original
        for _ in 0..<Int.random(in: 1...4, using: &random) {
            let position = Int.random(in: 0..<bytes.count, using: &random)
            switch Int.random(in: 0..<5, using: &random) {
            case 0: bytes[position] = UInt8.random(in: 0...255, using: &random)
            case 1: bytes[position] ^= 1 << UInt8.random(in: 0...7, using: &random)
            case 2: bytes.insert(random.pick([0, 0xFF, 0x80, 0x7F, 12, 13]), at: position)
            case 3 where bytes.count > 2: bytes.remove(at: position)
            default: bytes.replaceSubrange(position..<min(position + 4, bytes.count), with: [0xFF, 0xFF, 0xFF, 0xFF])
            }
        }
        return bytes
    }

    @Test("varints round-trip at every length")
    func varints() throws {
        let buffer = RecordBuffer(spillThreshold: .max)
        let values: [UInt64] =
            [0, 1, 127, 128, 16_383, 16_384] + (0..<64).flatMap { [1 << $0, (1 << $0) - 1] } + [.max]
        for value in values { buffer.append(varint: value) }
        var reader = RecordReader(buffer.bytes, from: 0, to: buffer.count)
        for value in values { #expect(try reader.varint() == value) }
        #expect(reader.isAtEnd)
        buffer.removeAll()
        buffer.append(varint: .max)
        #expect(buffer.count == 9)
    }

    @Test("a buffer rolls back to any position, on either side of a spill")
    func bufferRollback() throws {
        var random = SeededGenerator(seed: 7)
        for _ in 0..<300 {
            let buffer = RecordBuffer(spillThreshold: 20)
            var expected: [UInt8] = []
            for _ in 0..<Int.random(in: 1...60, using: &random) {
                if random.oneIn(4), !expected.isEmpty {
                    let position = Int.random(in: 0...expected.count, using: &random)
                    buffer.rollBack(to: position)
                    expected.removeLast(expected.count - position)
                } else {
                    let piece = (0..<Int.random(in: 1...15, using: &random)).map { _ in
                        UInt8.random(in: 0...255, using: &random)
                    }
                    piece.withUnsafeBytes { buffer.append(bytes: $0) }
                    expected += piece
                    try buffer.spillIfLarge()
                }
                #expect(buffer.position == expected.count)
            }
            var found: [UInt8] = []
            try buffer.forEachPiece { found += Array($0) }
            #expect(found == expected)
        }
    }

    @Test("damaged history in the file is an error that names the transaction, for readers of every kind")
    func damagedRow() async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        try await temporary.write("INSERT INTO t VALUES (1, 'text')")
        let other = try await SQLiteConnection.open(temporary.path)
        try await other.run {
            try $0.execute("UPDATE history_transaction SET changes = x'010163ff' WHERE sequence = 2")
        }
        await other.close()
        let transaction = try #require(try await temporary.store.transaction(2))
        let error = await #expect(throws: HistoryError.self) { try await transaction.changes.all() }
        #expect(error?.code == .damagedHistory)
        #expect(error?.message.contains("transaction 2") == true)
    }
}
