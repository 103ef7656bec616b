import Foundation
import Testing
import TidingsTestKit

extension PrivateBrokerTests {
    @Suite("The end of a test run", .serialized, .timeLimit(.minutes(3)))
    struct BrokerCrashTests {
        @Test(
            "a broker ends with its test run, however that ends",
            arguments: [("wait", SIGKILL), ("suspend", SIGKILL), ("return", nil)])
        func ends(mode: String, signal: Int32?) async throws {
            let run = try ChildProcess(ChildProcess.built("TestBroker"), [mode])
            var lines = run.lines.makeAsyncIterator()
            let words = try #require(await lines.next()).split(separator: " ").map(String.init)
            try #require(words.count == 3)
            let broker = try #require(Int32(words[2]))
            if let signal {
                #expect(kill(broker, 0) == 0)
                #expect(try Guarded.processes(of: words[0]).contains(broker))
                #expect(FileManager.default.fileExists(atPath: words[0]))
                #expect(FileManager.default.fileExists(atPath: words[1]))
                run.send(signal)
            }
            #expect(await run.wait() == (signal.map { .signalled($0) } ?? .exited(0)))
            let start = ContinuousClock.now
            try await Gone.wait(for: [words[0], words[1]])
            #expect(ContinuousClock.now - start < .seconds(10))
        }
    }
}
