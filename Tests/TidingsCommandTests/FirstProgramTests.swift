import Foundation
import Testing
import TidingsTestKit

/// The README's first program is the one that is compiled, and it runs.
@Suite(.timeLimit(.minutes(3)))
struct FirstProgramTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    @Test func `the README holds the first program word for word`() throws {
        let readme = try String(contentsOf: Self.root.appending(path: "README.md"), encoding: .utf8)
        let program = try String(
            contentsOf: Self.root.appending(path: "Tests/FirstProgram/main.swift"), encoding: .utf8)
        #expect(readme.contains("```swift\n\(program)```\n"))
        #expect(readme.split(separator: "\n", omittingEmptySubsequences: false).count <= 201)
    }

    @Test func `the first program runs, again too, and tells of each article`() async throws {
        let directory = try TemporaryDirectory()
        let environment = ["PATH": "/usr/bin:/bin"]
        for run in 1...2 {
            let first = try await FinishedProcess.run(
                ChildProcess.built("FirstProgram"), [directory.file("main.db")], environment: environment)
            #expect(first.ending == .exited(0), "\(first.error)")
            #expect(first.output.hasPrefix("new: [tidings://"))
            #expect(first.output.hasSuffix("/article/id=i\(run)]\n"))
        }
    }
}
