import Foundation
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("tidings init", .timeLimit(.minutes(5)))
struct InitTests {
    private let fixture: CommandLineFixture

    init() throws { fixture = try CommandLineFixture() }

    private func mode(_ path: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    }

    @Test("makes a store, says so again the next time, and needs --create for a missing file")
    func initialise() async throws {
        let path = fixture.path
        expect(
            try await fixture.run("init"),
            error: "tidings init: there is no file \(path): check the path, or create it with --create\n", code: 1)
        #expect(!FileManager.default.fileExists(atPath: path))
        let created = try await fixture.run("init", "--create")
        let id = try await fixture.storeID()
        expect(created, output: "\(path) is now the store \(id)\n")
        expect(try await fixture.run("init"), output: "\(path) is already the store \(id)\n")
        expect(try await fixture.run("init", "--create"), output: "\(path) is already the store \(id)\n")
    }

    @Test("keeps the tables of a database")
    func existing() async throws {
        try await fixture.sqlite("CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (7)")
        let run = try await fixture.run("init")
        expect(run, output: "\(fixture.path) is now the store \(try await fixture.storeID())\n")
        let store = try await HistoryStore.openReadOnly(fixture.path)
        #expect(try await store.read { db in try db.rows("SELECT * FROM t") } == [[7]])
    }

    @Test("a missing directory, and a file that is no database, are named")
    func wrongFiles() async throws {
        let missing = "\(fixture.directory.path)/none/x.db"
        let run = try await CommandLineFixture.run(["init", missing, "--create"])
        #expect(run.ending == .exited(1) && run.output == "")
        #expect(run.error.contains("there is no directory \(fixture.directory.path)/none: create it first"))
        expect(
            try await CommandLineFixture.run(["init", fixture.directory.path]),
            error: "tidings init: \(fixture.directory.path): opening the store failed: cannot open "
                + "\(fixture.directory.path): it is a directory: name a file in it\n", code: 1)
        let text = fixture.directory.file("text.db")
        try Data(repeating: 65, count: 5000).write(to: URL(filePath: text))
        let other = try await CommandLineFixture.run(["init", text])
        #expect(other.ending == .exited(1) && other.output == "")
        #expect(other.error.hasPrefix("tidings init: \(text): ") && other.error.contains("file is not a database"))
        #expect(try Data(contentsOf: URL(filePath: text)) == Data(repeating: 65, count: 5000))
    }

    @Test("--group opens directory and files to the group, of a new store and of an old one")
    func group() async throws {
        let group = try #require(getgrgid(getgid()).map { String(cString: $0.pointee.gr_name) })
        for name in [group, String(getgid())] {
            let fixture = try CommandLineFixture()
            for state in ["now", "already"] {
                expect(
                    try await fixture.run("init", "--create", "--group", name),
                    output: "\(fixture.path) is \(state) the store "
                        + "\(try await fixture.storeID())\n")
                #expect(try mode(fixture.directory.path) == 0o2770)
                for suffix in ["", "-wal", "-shm"] { #expect(try mode(fixture.path + suffix) == 0o660) }
            }
        }
    }

    @Test("--group with an unknown group leaves nothing behind")
    func unknownGroup() async throws {
        expect(
            try await fixture.run("init", "--create", "--group", "no-such-group"),
            error: "tidings init: there is no group no-such-group: create it with groupadd, or check the name\n",
            code: 1)
        #expect(try FileManager.default.contentsOfDirectory(atPath: fixture.directory.path) == [])
    }

    @Test("--group never closes a directory that everybody shares")
    func sharedDirectory() async throws {
        let directory = fixture.directory.path
        #expect(chmod(directory, 0o1777) == 0)
        expect(
            try await fixture.run("init", "--create", "--group", String(getgid())),
            error:
                "tidings init: \(directory) is a directory that everybody shares, and would be closed to all but group "
                + "\(getgid()): put the store into a directory of its own\n", code: 1)
        #expect(try mode(directory) == 0o1777)
    }

    @Test("--group says who may do it")
    func foreignGroup() async throws {
        let run = try await fixture.unprivileged(["init", fixture.path, "--create", "--group", "65533"])
        expect(
            run,
            error: "tidings init: cannot give \(fixture.directory.path) to group 65533: Operation not permitted: "
                + "run it as root, or as the owner, who must be a member of the group\n", code: 1)
    }
}
