import FoundationEssentials
import Glibc
import PersistentHistory
import Testing
import TidingsServices
import TidingsTestKit

@Suite("The log on standard error", .timeLimit(.minutes(3)))
struct LoggerTests {
    private static let time = "time=2023-11-14T22:13:20.000000Z"

    /// A file that a logger writes to.
    private struct File {
        let directory: TemporaryDirectory
        let descriptor: Int32

        init() throws {
            directory = try TemporaryDirectory()
            descriptor = open(directory.file("log"), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
            try #require(descriptor >= 0)
        }

        var text: String {
            lseek(descriptor, 0, SEEK_SET)
            return String(decoding: LoggerTests.bytes(descriptor, limit: 1 << 20), as: UTF8.self)
        }
    }

    /// What can be read at once.
    private static func bytes(_ descriptor: Int32, limit: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: limit)
        let count = read(descriptor, &bytes, limit)
        return Array(bytes.prefix(max(count, 0)))
    }

    /// A pipe, or the two ends of a socket, of which one is written to by a logger. The other does not block.
    private static func ends(socket: Bool) throws -> (reading: Int32, writing: Int32) {
        var ends: [Int32] = [-1, -1]
        if socket {
            try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
        } else {
            try #require(pipe(&ends) == 0)
        }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        _ = fcntl(ends[0], F_SETFL, O_NONBLOCK)
        return (ends[0], ends[1])
    }

    private static func logger(_ descriptor: Int32, _ level: HistoryLogLevel = .info) -> StandardErrorLogger {
        StandardErrorLogger(level: level, clock: TestClock(), descriptor: descriptor)
    }

    @Test(
        "an entry is one line of logfmt, whatever it holds",
        arguments: [
            (HistoryLogEntry("consumer", "caught up"), #"service=consumer msg="caught up""#),
            (
                HistoryLogEntry("relay", "", [("token", "17"), ("name", "orders 1"), ("empty", "")]),
                #"service=relay msg="" token=17 name="orders 1" empty="""#
            ),
            (
                HistoryLogEntry("a b", "say \"x\"\\\n\r\t", [("k", "a=b"), ("q", "\"")]),
                #"service="a b" msg="say \"x\"\\\n\r\t" k="a=b" q="\"""#
            ),
            (
                HistoryLogEntry("s", "\u{1B}[31m\u{0}\u{7F}\u{85}\u{2028}\u{202E}", [("k=\n \"x", "v"), ("", "v")]),
                #"service=s msg="\u{1b}[31m\u{0}\u{7f}\u{85}\u{2028}\u{202e}" k____x=v _=v"#
            ),
            (
                HistoryLogEntry("s", "größer", [("p", "ü"), ("path", "/a/b.db")]),
                #"service=s msg="größer" p="ü" path=/a/b.db"#
            ),
        ])
    func form(entry: HistoryLogEntry, expected: String) throws {
        let file = try File()
        Self.logger(file.descriptor).log(.warning) { entry }
        #expect(file.text == "\(Self.time) level=warning \(expected)\n")
    }

    @Test("entries below the level are not even made; the level can be changed at any time")
    func levels() throws {
        let file = try File()
        let logger = Self.logger(file.descriptor, .warning)
        var made = 0
        func logAll() {
            for level in HistoryLogLevel.allCases {
                logger.log(level) {
                    made += 1
                    return HistoryLogEntry("s", level.name)
                }
            }
        }
        logAll()
        #expect(made == 2 && logger.level == .warning)
        logger.setLevel(.trace)
        logAll()
        #expect(made == 7 && logger.level == .trace)
        logger.setLevel(.error)
        logAll()
        let expected = ["warning", "error", "trace", "debug", "info", "warning", "error", "error"]
        let lines = file.text.split(separator: "\n")
        #expect(lines.map { String($0) } == expected.map { "\(Self.time) level=\($0) service=s msg=\"\($0)\"" })
    }

    @Test("a long line is cut between two characters", arguments: [0, 1, 2])
    func long(shift: Int) throws {
        let file = try File()
        let text = String(repeating: "x", count: shift) + String(repeating: "€", count: 3000)
        Self.logger(file.descriptor).log(.info) { HistoryLogEntry("s", text, [("k", text)]) }
        let line = file.text
        #expect(line.utf8.count <= 4096 && line.utf8.count > 4090 && line.hasSuffix("€…\n"))
        #expect(!line.contains("\u{FFFD}"))
    }

    @Test("lines of many threads do not mix")
    func threads() async throws {
        let file = try File()
        let logger = Self.logger(file.descriptor)
        await withTaskGroup { tasks in
            for task in 0..<8 {
                tasks.addTask {
                    for number in 0..<50 { logger.log(.info) { HistoryLogEntry("s", "\(task) \(number)") } }
                }
            }
        }
        var expected: Set<String> = []
        for task in 0..<8 {
            for number in 0..<50 { expected.insert("\(Self.time) level=info service=s msg=\"\(task) \(number)\"") }
        }
        let lines = file.text.split(separator: "\n").map(String.init)
        #expect(lines.count == 400 && Set(lines) == expected)
    }

    @Test(
        "a service hung when nobody read its standard error: entries are dropped, and counted",
        arguments: [false, true])
    func full(socket: Bool) throws {
        let (reading, writing) = try Self.ends(socket: socket)
        defer { close(reading) }
        let logger = Self.logger(writing)
        let text = String(repeating: "x", count: 3000)
        let count = 500
        for number in 0..<count { logger.log(.info) { HistoryLogEntry("s", "\(number) \(text)") } }
        // Of a socket's line the beginning may have been taken: its end goes first.
        var bytes = Self.drain(reading)
        logger.log(.info) { HistoryLogEntry("s", "read again") }
        bytes += Self.drain(reading)
        close(writing)
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init)
        let taken = lines.count - 2
        #expect(taken > 10 && taken < count)
        let expected = (0..<taken).map { "\(Self.time) level=info service=s msg=\"\($0) \(text)\"" }
        // Not for the eyes.
        let areEqual = Array(lines.prefix(taken)) == expected
        #expect(areEqual)
        let note = "level=warning service=log msg=\"entries were dropped: nobody read standard error\""
        #expect(lines[taken] == "\(Self.time) \(note) count=\(count - taken)")
        #expect(lines[taken + 1] == "\(Self.time) level=info service=s msg=\"read again\"")
    }

    private static func drain(_ descriptor: Int32) -> [UInt8] {
        var all: [UInt8] = []
        while true {
            let part = bytes(descriptor, limit: 1 << 20)
            if part.isEmpty { return all }
            all += part
        }
    }

    @Test("a reader that is gone does not end the program", arguments: [false, true])
    func closed(socket: Bool) throws {
        let (reading, writing) = try Self.ends(socket: socket)
        close(reading)
        defer { close(writing) }
        let logger = Self.logger(writing)
        // The signal would end the tests.
        for _ in 0..<3 { logger.log(.info) { HistoryLogEntry("s", "x") } }
    }

    @Test("the descriptor that others share stays as it is, and what the logger has opened is closed with it")
    func shared() throws {
        let (reading, writing) = try Self.ends(socket: false)
        defer { close(reading) }
        defer { close(writing) }
        #expect(Self.count(ofDescriptorsTo: reading) == 2)
        do {
            let logger = Self.logger(writing)
            logger.log(.info) { HistoryLogEntry("s", "x") }
            #expect(fcntl(writing, F_GETFL) & O_NONBLOCK == 0)
            #expect(Self.count(ofDescriptorsTo: reading) == 3)
        }
        #expect(Self.count(ofDescriptorsTo: reading) == 2)
    }

    /// How many descriptors of this process lead to the same pipe.
    private static func count(ofDescriptorsTo descriptor: Int32) -> Int {
        let pipe = target(of: descriptor)
        // All there are: other tests have more than a thousand open.
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        return names.compactMap { Int32($0) }.filter { target(of: $0) == pipe }.count
    }

    private static func target(of descriptor: Int32) -> String? {
        var name = [CChar](repeating: 0, count: 64)
        let count = readlink("/proc/self/fd/\(descriptor)", &name, name.count)
        return count > 0 ? String(decoding: name.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self) : nil
    }
}
