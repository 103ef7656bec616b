import Glibc
import Testing
import TidingsTestKit

@Suite("Signals end a program", .timeLimit(.minutes(3)))
struct SignalTests {
    /// A program with two services that run.
    private struct Program {
        let process: ChildProcess

        init(_ mode: String, boundInMilliseconds: Int) async throws {
            process = try ChildProcess(ChildProcess.built("TestAgent"), ["service", mode, "\(boundInMilliseconds)"])
            #expect(await Set(next(2)) == ["first runs", "second runs"])
        }

        /// The next lines of its output.
        func next(_ count: Int) async -> [String] {
            var next: [String] = []
            for await line in process.lines {
                next.append(line)
                if next.count == count { break }
            }
            return next
        }

        /// The lines until all of these have come.
        func lines(until expected: Set<String>) async -> [String] {
            var lines: [String] = []
            while !expected.isSubset(of: lines), let line = await next(1).first { lines.append(line) }
            return lines
        }
    }

    private static let graceful = ["second stops", "second ends", "first stops", "first ends", "returned"]

    @Test(
        "SIGTERM and SIGINT let services finish in reverse order, and the program exits 0",
        arguments: [SIGTERM, SIGINT])
    func graceful(signal: Int32) async throws {
        let program = try await Program("graceful", boundInMilliseconds: 60_000)
        program.process.send(signal)
        #expect(await program.next(5) == Self.graceful)
        try program.process.write(line: "")
        #expect(await program.process.wait() == .exited(0))
    }

    @Test("after the end signals act as they did before")
    func restored() async throws {
        let program = try await Program("graceful", boundInMilliseconds: 60_000)
        program.process.send(SIGINT)
        #expect(await program.next(5) == Self.graceful)
        program.process.send(SIGTERM)
        #expect(await program.process.wait() == .signalled(SIGTERM))
    }

    /// Whether the second service is told to stop before it is cancelled, is for the clock to say.
    private static func withoutStops(_ lines: [String]) -> Set<String> { Set(lines.filter { !$0.hasSuffix("stops") }) }

    @Test("services that take longer than the bound are cancelled, and the program exits 0")
    func bound() async throws {
        let program = try await Program("stubborn", boundInMilliseconds: 50)
        program.process.send(SIGTERM)
        let expected: Set = ["first is cancelled", "first ends", "second is cancelled", "second ends"]
        #expect(await Self.withoutStops(program.lines(until: ["returned"])) == expected.union(["returned"]))
        try program.process.write(line: "")
        #expect(await program.process.wait() == .exited(0))
    }

    @Test("a second signal cancels at once")
    func second() async throws {
        let program = try await Program("stubborn", boundInMilliseconds: 600_000)
        program.process.send(SIGINT)
        #expect(await program.next(1) == ["second stops"])
        program.process.send(SIGINT)
        let expected: Set = ["first is cancelled", "first ends", "second is cancelled", "second ends", "returned"]
        #expect(await Self.withoutStops(program.lines(until: ["returned"])) == expected)
        try program.process.write(line: "")
        #expect(await program.process.wait() == .exited(0))
    }

    @Test("a third signal ends a program whose services do not even end when cancelled")
    func third() async throws {
        let program = try await Program("deaf", boundInMilliseconds: 50)
        program.process.send(SIGTERM)
        let expected: Set = ["first is cancelled", "first ends", "second is cancelled"]
        #expect(await Self.withoutStops(program.lines(until: expected)) == expected)
        program.process.send(SIGTERM)
        #expect(await program.process.wait() == .signalled(SIGTERM))
    }

    @Test("a service that fails while it is stopped is told, not swallowed")
    func failing() async throws {
        let program = try await Program("failing", boundInMilliseconds: 60_000)
        program.process.send(SIGTERM)
        #expect(await program.next(4) == ["second stops", "first stops", "first ends", "threw Failure()"])
        try program.process.write(line: "")
        #expect(await program.process.wait() == .exited(0))
    }
}
