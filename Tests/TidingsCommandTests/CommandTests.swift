import Foundation
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("tidings", .timeLimit(.minutes(2)))
struct CommandTests {
    private let directory: TemporaryDirectory
    private let path: String

    init() throws {
        directory = try TemporaryDirectory()
        path = directory.file("main.db")
    }

    private func tidings(_ arguments: String..., input: String? = nil) async throws -> FinishedProcess {
        try await FinishedProcess.run(ChildProcess.built("tidings"), arguments, input: input)
    }

    /// A store with a table `article`, tracked by transaction 1.
    private func prepare() async throws {
        let store = try await HistoryStore.open(path, author: "setup", create: true)
        try await store.migrate {
            try $0.execute("CREATE TABLE article(id INTEGER PRIMARY KEY, title TEXT, score REAL)")
        }
        try await store.track(.all)
        await store.close()
    }

    @Test("init makes a store, says so again the next time, and needs --create for a missing file")
    func initialise() async throws {
        let missing = try await tidings("init", path)
        #expect(missing.ending == .exited(1) && missing.output == "")
        #expect(missing.error == "tidings init: there is no file \(path): check the path, or create it with --create\n")
        let created = try await tidings("init", path, "--create")
        let id = try await HistoryStore.openReadOnly(path).storeID.uuidString.lowercased()
        #expect(created.ending == .exited(0) && created.output == "\(path) is store \(id)\n")
        let again = try await tidings("init", path)
        #expect(again.ending == .exited(0) && again.output == "\(path) is already store \(id)\n")
    }

    @Test("init --group opens directory and files to the group")
    func group() async throws {
        let missing = try await tidings("init", path, "--create", "--group", "no-such-group")
        #expect(missing.ending == .exited(1) && missing.error.contains("there is no group no-such-group"))
        let done = try await tidings("init", path, "--group", "root")
        #expect(done.ending == .exited(0), "\(done.error)")
        func mode(_ path: String) throws -> Int? {
            try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        }
        #expect(try mode(directory.path) == 0o2770)
        for suffix in ["", "-wal", "-shm"] { #expect(try mode(path + suffix) == 0o660) }
    }

    @Test("track and untrack print the sequence, or - where nothing was new")
    func track() async throws {
        let plain = try await SQLiteConnection.open(path, options: OpenOptions(access: .create))
        try await plain.run {
            try $0.execute(
                "CREATE TABLE a(id INTEGER PRIMARY KEY); CREATE TABLE b(id INTEGER PRIMARY KEY); CREATE TABLE x(v)")
        }
        await plain.close()
        _ = try await tidings("init", path)
        #expect(try await tidings("track", path, "a").output == "1\n")
        #expect(try await tidings("track", path, "a", "b").output == "2\n")
        #expect(try await tidings("track", path, "b").output == "-\n")
        let all = try await tidings("track", path, "--all")
        #expect(all.ending == .exited(1) && all.output == "")
        #expect(
            all.error.contains("table x has no declared primary key") && all.error.contains("id INTEGER PRIMARY KEY"))
        #expect(try await tidings("untrack", path, "a").output == "3\n")
        let twice = try await tidings("untrack", path, "a")
        #expect(twice.ending == .exited(1) && twice.error.contains("table a is not tracked"))
        #expect(try await tidings("untrack", path, "--all").output == "4\n")
    }

    @Test("exec runs one transaction an argument, or standard input as one")
    func exec() async throws {
        try await prepare()
        let run = try await tidings(
            "exec", path, "--author", "me", "--context", "load",
            "INSERT INTO article(title) VALUES ('a'); INSERT INTO article(title) VALUES ('b')", "SELECT 1",
            "DELETE FROM article WHERE id = 2")
        #expect(run.ending == .exited(0) && run.output == "2\n-\n3\n" && run.error == "")
        let input = try await tidings(
            "exec", path, "--author=me", input: "UPDATE article SET title = 'z';\n-- the end\n")
        #expect(input.output == "4\n")
        let failing = try await tidings(
            "exec", path, "--author", "me", "INSERT INTO article VALUES (9, 'x', 1)",
            "INSERT INTO article VALUES (9, 'secret', 1)",
            "DELETE FROM article")
        #expect(failing.ending == .exited(1) && failing.output == "5\n")
        #expect(failing.error.hasPrefix("tidings exec: SQL argument 2 was rolled back: "))
        #expect(failing.error.contains("UNIQUE constraint failed: article.id"))
        let store = try await HistoryStore.openReadOnly(path)
        let second = try await store.transaction(2)
        #expect(second?.author == "me" && second?.contextName == "load" && second?.changeCount == 2)
    }

    @Test("log lists transactions for people, with every filter")
    func log() async throws {
        try await prepare()
        _ = try await tidings(
            "exec", path, "--author", "me", "INSERT INTO article VALUES (1, 'é \"x\"', 1), (2, NULL, 0.5)",
            "UPDATE article SET title = 'b' WHERE id = 1", "DELETE FROM article WHERE id = 2")
        let all = try await tidings("log", path)
        let lines = all.output.split(separator: "\n").map(String.init)
        #expect(all.ending == .exited(0) && lines.count == 9)
        #expect(lines[0].hasPrefix("1  ") && lines[0].contains("Z  setup/track  "))
        #expect(lines[1] == "  * track article(id, title, score)")
        #expect(lines[3] == #"  + article id=1  title: "é \"x\"", score: 1.0"#)
        #expect(lines[4] == "  + article id=2  title: NULL, score: 0.5")
        #expect(lines[6] == #"  ~ article id=1  title: "é \"x\"" → "b""#)
        #expect(lines[8] == "  - article id=2  title: NULL, score: 0.5")

        func count(_ options: String...) async throws -> String {
            let arguments = ["log", path, "--count"] + options
            return try await FinishedProcess.run(ChildProcess.built("tidings"), arguments).output
        }
        #expect(try await count() == "4\n")
        #expect(try await count("--after", "2") == "2\n")
        #expect(try await count("--until", "2") == "2\n")
        #expect(try await count("--author", "me") == "3\n")
        #expect(try await count("--author", "me", "--author", "setup") == "4\n")
        #expect(try await count("--not-author", "me") == "1\n")
        #expect(try await count("--op", "delete", "--op", "update") == "2\n")
        #expect(try await count("--object", "article:1") == "2\n")
        #expect(try await count("--entity", "article") == "4\n")
        #expect(try await count("--since", "1h") == "4\n")
        #expect(try await count("--before", "1h") == "0\n")
        #expect(try await count("--since", "2000-01-01T00:00:00Z", "--before", "2000-01-01T02:00:00+01:00") == "0\n")
        #expect(try await count("--limit", "3") == "3\n")
        let reversed = try await tidings("log", path, "--reverse", "--limit", "1")
        #expect(reversed.output.hasPrefix("4  "))
    }

    @Test("log --json writes an object a line that any JSON reader reads back exactly")
    func json() async throws {
        try await prepare()
        _ = try await tidings(
            "exec", path, "--author", "me", "--context", "c",
            "INSERT INTO article VALUES (9007199254740993, CAST(x'ff' AS TEXT), 9e999), (2, 'a' || char(10), 1)",
            "UPDATE article SET title = x'00ff' WHERE id = 2")
        let lines = try await tidings("log", path, "--after", "1", "--json").output.split(separator: "\n").map(
            String.init)
        let store = try await HistoryStore.openReadOnly(path)
        let second = try #require(try await store.transaction(2))
        let id = store.storeID.uuidString.lowercased()
        let nonce = second.token.description.split(separator: ":")[3]
        let parts: [String] = [
            #"{"token":{"store":"\#(id)","epoch":1,"sequence":2,"nonce":"\#(nonce)"},"author":"me","context":"c","#,
            #""origin":"\#(second.origin)","time":"\#(RFC3339.string(microseconds: second.microseconds))","#,
            #""entities":["article"],"#,
            #""changes":[{"entity":"article","op":"insert","key":{"id":{"$integer":"9007199254740993"}},"before":null,"#,
            #""after":{"id":{"$integer":"9007199254740993"},"title":{"$text":"/w=="},"score":{"$real":"Infinity"}},"#,
            #""changed":[]},{"entity":"article","op":"insert","key":{"id":2},"before":null,"#,
            #""after":{"id":2,"title":"a\n","score":1.0},"changed":[]}]}"#,
        ]
        #expect(lines.first == parts.joined())
        let script = """
            import json, sys
            for line in sys.stdin:
                t = json.loads(line)
                print(list(t), t["token"]["sequence"], [(c["op"], c["changed"], c["before"], c["after"]) for c in t["changes"]][-1:])
            """
        let python = try await FinishedProcess.run(
            "/usr/bin/env", ["python3", "-c", script], input: lines.joined(separator: "\n"))
        let fields = "['token', 'author', 'context', 'origin', 'time', 'entities', 'changes']"
        #expect(
            python.output == "\(fields) 2 [('insert', [], None, {'id': 2, 'title': 'a\\n', 'score': 1.0})]\n"
                + "\(fields) 3 [('update', ['title'], {'title': 'a\\n'}, {'title': {'$blob': 'AP8='}})]\n")
    }

    @Test("show prints one transaction, and says why there is none")
    func show() async throws {
        try await prepare()
        _ = try await tidings(
            "exec", path, "--author", "me", "INSERT INTO article VALUES (1, 'a', 1)", "DELETE FROM article")
        let shown = try await tidings("show", path, "2")
        #expect(
            shown.output.split(separator: "\n").map(String.init).last == #"  + article id=1  title: "a", score: 1.0"#)
        let json = try await tidings("show", path, "2", "--json").output
        #expect(try await tidings("log", path, "--after", "1", "--until", "2", "--json").output == json)
        let beyond = try await tidings("show", path, "7")
        #expect(beyond.ending == .exited(1))
        #expect(beyond.error == "tidings show: \(path) has no transaction 7: the newest is 3\n")
        _ = try await tidings("purge", path, "--before", "3")
        let purged = try await tidings("show", path, "2")
        #expect(purged.error == "tidings show: \(path) has no transaction 2: it was purged: history begins at 3\n")
        #expect(try await tidings("show", path, "x").ending == .exited(2))
    }

    @Test("PHT1: info names a store that is tracked but not published, its tables and the obstacles")
    func info() async throws {
        try await prepare()
        let store = try await HistoryStore.open(path, author: "setup")
        try await store.migrate { try $0.execute("CREATE TABLE log(line TEXT)") }
        await store.close()
        let output = try await tidings("info", path).output
        for line in [
            "path          \(path)", "store         \(store.storeID.uuidString.lowercased())", "format        1",
            "epoch         1", "head          1", "purged        nothing", "publishing    off",
            "  article(id, title, score)",
        ] { #expect(output.split(separator: "\n").contains(Substring(line)), "\(line)") }
        #expect(output.contains("  log: table log has no declared primary key"))
        let json = try await tidings("info", path, "--json").output
        let object = try #require(try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any])
        #expect(object["published"] is NSNull && object["transactions"] as? Int == 1)
        #expect((object["tracked"] as? [[String: Any]])?.first?["columns"] as? [String] == ["id", "title", "score"])
    }

    @Test("purge prints the true count, and --dry-run deletes nothing")
    func purge() async throws {
        try await prepare()
        _ = try await tidings(
            "exec", path, "--author", "me", "INSERT INTO article VALUES (1, 'a', 1)", "DELETE FROM article")
        #expect(try await tidings("purge", path, "--before", "3", "--dry-run").output == "2\n")
        #expect(try await tidings("log", path, "--count").output == "3\n")
        #expect(try await tidings("purge", path, "--before", "3").output == "2\n")
        #expect(try await tidings("purge", path, "--before", "3").output == "0\n")
        #expect(try await tidings("log", path, "--count").output == "1\n")
        #expect(try await tidings("purge", path, "--before", "100").output == "1\n")
    }

    @Test("a reader alone on the machine needs no writer first")
    func readsWithoutCompanions() async throws {
        try await prepare()
        for suffix in ["-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + suffix) }
        let log = try await tidings("log", path, "--count")
        #expect(log.ending == .exited(0) && log.output == "1\n")
    }

    @Test(
        "every subcommand has its help, on standard output",
        arguments: ["init", "track", "untrack", "exec", "log", "show", "info", "purge"])
    func help(name: String) async throws {
        let help = try await tidings(name, "--help")
        #expect(help.ending == .exited(0) && help.error == "")
        #expect(help.output.hasPrefix("usage: tidings \(name) DB"))
        #expect(help.output.contains("--help"))
        let list = try await tidings("--help")
        #expect(list.ending == .exited(0) && list.output.contains("\n  \(name) "))
    }

    @Test(
        "what cannot be understood is a usage error that says what was expected",
        arguments: [
            (["nope"], "there is no subcommand nope"), (["log"], "expected DB, got 0 operands"),
            (["log", "x.db", "--wrong"], "unknown option --wrong"), (["log", "x.db", "-n"], "unknown option -n"),
            (["log", "x.db", "--limit"], "--limit expects N"),
            (["log", "x.db", "--limit", "-1"], "--limit expects a whole number from 0 on, not -1"),
            (["log", "x.db", "--limit", "1", "--limit", "2"], "--limit is given twice"),
            (["log", "x.db", "--count=1"], "--count takes no value"),
            (["log", "x.db", "--op", "move"], "--op expects insert, update or delete, not move"),
            (["log", "x.db", "--since", "yesterday"], "--since expects a time"),
            (["exec", "x.db", "SELECT 1"], "--author is required"),
            (["track", "x.db"], "name the tables, or say --all"),
            (["track", "x.db", "t", "--all"], "exclude each other"),
            (["purge", "x.db"], "--before is required"),
            (["purge", "x.db", "--before", "0"], "--before expects a whole number from 1 on, not 0"),
            (["show", "x.db"], "expected DB N, got 1 operands"),
        ])
    func usageErrors(arguments: [String], message: String) async throws {
        let run = try await FinishedProcess.run(ChildProcess.built("tidings"), arguments)
        #expect(run.ending == .exited(2) && run.output == "")
        #expect(run.error.contains(message), "\(run.error)")
    }

    @Test(
        "what fails says what, where and the remedy, and exits with 1",
        arguments: [
            (["log", "/nowhere/x.db"], "there is no directory /nowhere"),
            (["track", "/nowhere/x.db", "t"], "/nowhere/x.db"),
            (["info", "/dev/null"], "/dev/null"),
        ])
    func failures(arguments: [String], message: String) async throws {
        let run = try await FinishedProcess.run(ChildProcess.built("tidings"), arguments)
        #expect(run.ending == .exited(1) && run.output == "")
        #expect(run.error.hasPrefix("tidings \(arguments[0]): ") && run.error.contains(message), "\(run.error)")
    }

    @Test("a reader of the output that goes away ends the listing quietly")
    func closedOutput() async throws {
        try await prepare()
        let values = (1...3000).map { "(\($0), printf('%.100c', 'x'), 1)" }.joined(separator: ",")
        _ = try await tidings("exec", path, "--author", "me", "INSERT INTO article VALUES \(values)")
        let shell = try await FinishedProcess.run(
            "/bin/bash",
            ["-c", "set -o pipefail; \"$0\" log \"$1\" | head -n 1 > /dev/null", ChildProcess.built("tidings"), path])
        #expect(shell.ending == .exited(0) && shell.error == "")
    }
}
