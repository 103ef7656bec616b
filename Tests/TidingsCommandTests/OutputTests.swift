import Foundation
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("Streams and files of tidings", .timeLimit(.minutes(5)))
struct OutputTests {
    private let fixture: CommandLineFixture

    init() async throws {
        fixture = try CommandLineFixture()
        try await fixture.prepare()
    }

    /// One transaction with so many changes, and as many transactions with one.
    private func fill(_ count: Int) async throws {
        try await fixture.writing(as: "me") { store in
            try await store.write { db in
                try db.execute(
                    """
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(count))
                    INSERT INTO article SELECT i, printf('%.100c', 'x'), i FROM n
                    """)
            }
        }
        try await fixture.sqlite(
            """
            WITH RECURSIVE n(i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM n WHERE i < \(count))
            INSERT INTO history_transaction SELECT i, nonce, time, author, context, origin, entities, change_count,
                chunk_count, changes FROM n, history_transaction WHERE sequence = 1
            """)
    }

    @Test("a reader of the output that goes away ends the listing quietly", arguments: ["", "--json"])
    func closedOutput(option: String) async throws {
        try await fill(3000)
        let run = try await fixture.shell(#"set -o pipefail; "$0" log "$1" \#(option) | head -n 1 > /dev/null"#)
        expect(run)
    }

    @Test("output that cannot be written is an error")
    func fullOutput() async throws {
        expect(
            try await fixture.shell(#""$0" log "$1" > /dev/full"#),
            error: "tidings: standard output: No space left on device: not all was written\n", code: 1)
        expect(
            try await fixture.shell(#""$0" log "$1" >&-"#),
            error: "tidings: standard output: Bad file descriptor: not all was written\n", code: 1)
    }

    @Test("memory does not grow with the history, nor with a transaction", arguments: ["", "--json"])
    func memory(option: String) async throws {
        func peak() async throws -> Int {
            let script = """
                import resource, subprocess, sys
                subprocess.run([a for a in sys.argv[1:] if a], stdout=subprocess.DEVNULL, check=True)
                print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
                """
            let arguments = ["python3", "-c", script, ChildProcess.built("tidings"), "log", fixture.path, option]
            let run = try await FinishedProcess.run("/usr/bin/env", arguments)
            return try #require(Int(run.output.dropLast()), "\(run.error)")
        }
        let small = try await peak()
        try await fill(100_000)
        let large = try await peak()
        #expect(large - small < 24 << 10, "\(small) KiB, then \(large) KiB")
    }

    @Test("somebody alone on the machine needs no writer first; without permission to write, one must come")
    func missingCompanions() async throws {
        func removeCompanions() throws {
            for suffix in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: fixture.path + suffix) }
        }
        for arguments in [["log", "--count"], ["purge", "--before", "2", "--dry-run"]] {
            try removeCompanions()
            expect(try await CommandLineFixture.run([arguments[0], fixture.path] + arguments[1...]), output: "1\n")
        }
        try removeCompanions()
        try FileManager.default.setAttributes([.posixPermissions: 0o444], ofItemAtPath: fixture.path)
        expect(
            try await fixture.unprivileged(["log", fixture.path]),
            error:
                "tidings log: \(fixture.path): \(fixture.path)-wal and \(fixture.path)-shm missing, and a reader never "
                + "creates them: wait for a writer to open the store\n", code: 1)
        let write = try await fixture.unprivileged(["exec", fixture.path, "--author", "me", "SELECT 1"])
        #expect(write.ending == .exited(1) && write.output == "")
        #expect(write.error.contains("the file or its file system is read-only for this user"))
    }

    @Test("reading changes nothing: neither the data nor the files")
    func readOnly() async throws {
        func contents() throws -> [Data] {
            try ["", "-wal"].map { try Data(contentsOf: URL(filePath: fixture.path + $0)) }
        }
        let before = try contents()
        for arguments in [["log"], ["show", "1"], ["info"], ["purge", "--before", "2", "--dry-run"]] {
            let run = try await CommandLineFixture.run([arguments[0], fixture.path] + arguments.dropFirst())
            #expect(run.ending == .exited(0) && run.error == "")
        }
        #expect(try contents() == before)
    }

    @Test(
        "a file that cannot be a store is named, with the reason",
        arguments: [
            (["log", "/nowhere/x.db"], "there is no directory /nowhere: create it first"),
            (["track", "/nowhere/x.db", "t"], "there is no directory /nowhere: create it first"),
            (["info", "/dev/null"], "/dev/null"), (["show", "/", "1"], "it is a directory"),
        ])
    func wrongFiles(arguments: [String], message: String) async throws {
        let run = try await CommandLineFixture.run(arguments)
        #expect(run.ending == .exited(1) && run.output == "")
        #expect(run.error.hasPrefix("tidings \(arguments[0]): ") && run.error.contains(message), "\(run.error)")
    }
}
