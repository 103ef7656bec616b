import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("tidings exec", .timeLimit(.minutes(5)))
struct ExecTests {
    private let fixture: CommandLineFixture

    init() async throws {
        fixture = try CommandLineFixture()
        try await fixture.prepare()
    }

    private func count(_ table: String) async throws -> Int? {
        let store = try await HistoryStore.openReadOnly(fixture.path)
        return try await store.read { db in try db.first("SELECT count(*) FROM \(table)", as: Int.self) }
    }

    @Test("each argument is one transaction; - where nothing changed; rows are not printed")
    func arguments() async throws {
        let run = try await fixture.run(
            "exec", "--author", "me", "--context", "load",
            "INSERT INTO article(title) VALUES ('a'); INSERT INTO article(title) VALUES ('b')", "SELECT * FROM article",
            "UPDATE article SET title = title", "", "DELETE FROM article WHERE id = 2")
        expect(run, output: "2\n-\n-\n-\n3\n")
        let second = try await fixture.transaction(2)
        #expect(second.author == "me" && second.contextName == "load" && second.changeCount == 2)
        #expect(try await fixture.transaction(3).changeCount == 1)
    }

    @Test("standard input is one transaction")
    func input() async throws {
        let sql =
            "INSERT INTO article VALUES (1, 'é', 1);\n-- and\nINSERT INTO article VALUES (2, 'b', 2);\n-- the end\n"
        expect(try await fixture.run("exec", "--author=me", input: sql), output: "2\n")
        let second = try await fixture.transaction(2)
        #expect(second.contextName == nil && second.changeCount == 2)
        expect(try await fixture.run("exec", "--author=me", input: ""), output: "-\n")
    }

    @Test("standard input that is not UTF-8 is refused, not repaired")
    func malformedInput() async throws {
        let run = try await fixture.shell(#"printf "DELETE FROM article -- \\xff" | "$0" exec "$1" --author me"#)
        expect(run, error: "tidings exec: standard input is not valid UTF-8: convert it first\n", code: 1)
    }

    @Test("a failing argument is named and rolled back; those before it stay, those behind it are not run")
    func failure() async throws {
        let run = try await fixture.run(
            "exec", "--author", "me", "INSERT INTO article VALUES (9, 'x', 1)",
            "INSERT INTO article VALUES (10, 'y', 1); INSERT INTO article VALUES (9, 'z', 1)", "DELETE FROM article")
        expect(
            run, output: "2\n",
            error: "tidings exec: argument 2 of 3 was rolled back: SQLite error 1555: UNIQUE constraint failed: "
                + "article.id (in: INSERT INTO article VALUES (9, 'z', 1))\n", code: 1)
        #expect(try await count("article") == 1)
        let input = try await fixture.run("exec", "--author", "me", input: "DELETE FROM nowhere")
        expect(
            input,
            error: "tidings exec: standard input was rolled back: SQLite error 1: no such table: nowhere "
                + "(in: DELETE FROM nowhere)\n", code: 1)
    }

    @Test("transactions, the history's own tables and dangerous pragmas are refused with the reason")
    func policy() async throws {
        for (sql, reason) in [
            ("BEGIN", "BEGIN is not allowed in a tracked write"),
            ("DELETE FROM article; COMMIT", "COMMIT is not allowed in a tracked write"),
            ("DELETE FROM history_transaction", "history_transaction belongs to Tidings"),
            ("COMMIT", "to take part of it back use SAVEPOINT and ROLLBACK TO (in: COMMIT)"),
            (
                "PRAGMA journal_mode = DELETE",
                "PRAGMA journal_mode cannot be changed on a connection that records history: leave it out (in: "
            ),
            ("VACUUM", "transaction (in: VACUUM): it changes no rows, so run it with `sqlite3 DB VACUUM`\n"),
        ] {
            let run = try await fixture.run("exec", "--author", "me", sql)
            #expect(run.ending == .exited(1) && run.output == "")
            #expect(
                run.error.hasPrefix("tidings exec: argument 1 of 1 was rolled back: ") && run.error.contains(reason))
        }
        expect(try await fixture.run("log", "--count"), output: "1\n")
    }

    @Test("VACUUM past Tidings, as its error says, leaves the history as it is")
    func vacuum() async throws {
        _ = try await fixture.run("exec", "--author", "me", "INSERT INTO article VALUES (1, 'a', 1)")
        let before = try await fixture.run("log")
        _ = try await FinishedProcess.run("/usr/bin/env", ["sqlite3", fixture.path, "VACUUM"])
        expect(try await fixture.run("log"), output: before.output)
        expect(try await fixture.run("exec", "--author", "me", "DELETE FROM article"), output: "3\n")
    }

    @Test(
        "an author that cannot be one failed like the work itself: it is a usage error",
        arguments: [
            ("", "the author is empty: name who writes, for example the service"),
            (" ", "the author is empty: name who writes, for example the service"),
            (
                "a\nb",
                "the author must be at most 128 bytes without control characters: it becomes part of queue names"
            ),
            (
                String(repeating: "x", count: 129),
                "the author must be at most 128 bytes without control characters: it becomes part of queue names"
            ),
        ])
    func author(author: String, message: String) async throws {
        expect(
            try await fixture.run("exec", "--author", author, "SELECT 1"),
            error: "tidings exec: --author: \(message)\nSee `tidings exec --help`.\n", code: 2)
    }

    @Test(
        "somebody's transaction was listed as tidings/track, like the system's own",
        arguments: ["tidings", "tidings/track"])
    func reservedAuthor(author: String) async throws {
        expect(
            try await fixture.run("exec", "--author", author, "INSERT INTO article VALUES (1, 'a', 1)"),
            error: "tidings exec: --author: the author \(author) is reserved for Tidings itself: "
                + "name who writes differently\nSee `tidings exec --help`.\n", code: 2)
        expect(try await fixture.run("log", "--count"), output: "1\n")
    }

    @Test("DDL: a tracked table gets a new layout, a dropped one ends")
    func schema() async throws {
        let run = try await fixture.run(
            "exec", "--author", "me", "INSERT INTO article(title) VALUES ('a')",
            "ALTER TABLE article ADD COLUMN n DEFAULT 4; UPDATE article SET n = 5", "CREATE TABLE other(id INTEGER)",
            "DROP TABLE article")
        expect(run, output: "2\n3\n-\n4\n")
        let third = try await fixture.run("show", "3")
        #expect(third.lines.dropFirst() == ["  * alter article(id, title, score, n)", "  ~ article id=1  n: 4 → 5"])
        let fourth = try await fixture.run("show", "4")
        #expect(fourth.lines.dropFirst().first == "  * drop article(id, title, score, n)")
    }

    @Test("a reader that goes away does not stop the writing")
    func closedOutput() async throws {
        let inserts = (1...50).map { "'INSERT INTO article(title) VALUES ($0)'".replacing("$0", with: "\($0)") }
        let run = try await fixture.shell(
            #"set -o pipefail; "$0" exec "$1" --author me \#(inserts.joined(separator: " ")) | true"#)
        expect(run)
        #expect(try await count("article") == 50)
    }

    @Test("a store that is none, or is missing, is named with the remedy")
    func noStore() async throws {
        let fixture = try CommandLineFixture()
        let missing = try await fixture.run("exec", "--author", "me", "SELECT 1")
        expect(
            missing,
            error: "tidings exec: there is no file \(fixture.path): "
                + "check the path, or create a store with `tidings init DB --create`\n", code: 1)
        try await fixture.sqlite("CREATE TABLE t(a)")
        for arguments in [["exec", fixture.path, "--author", "me", "SELECT 1"], ["log", fixture.path]] {
            expect(
                try await CommandLineFixture.run(arguments),
                error:
                    "tidings \(arguments[0]): \(fixture.path) is a database but not a Tidings store: make it one with "
                    + "`tidings init DB`\n", code: 1)
        }
    }
}
