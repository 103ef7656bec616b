import Foundation
import PersistentHistory
import Testing
import TidingsSQLite
import TidingsTestKit

@Suite("tidings log --json", .timeLimit(.minutes(5)))
struct LogJSONTests {
    private let fixture: CommandLineFixture

    init() async throws {
        fixture = try CommandLineFixture()
        try await fixture.prepare()
    }

    /// The line up to the changes.
    private func head(_ sequence: Int64, author: String, context: String, entities: String) async throws -> String {
        let transaction = try await fixture.transaction(sequence)
        let nonce = transaction.token.description.split(separator: ":")[3]
        return
            #"{"token":{"store":"\#(try await fixture.storeID())","epoch":1,"sequence":\#(sequence),"nonce":"\#(nonce)"},"#
            + #""author":"\#(author)","context":\#(context),"origin":"\#(transaction.origin)","#
            + #""time":"\#(RFC3339.string(microseconds: transaction.microseconds))","entities":[\#(entities)],"changes":["#
    }

    @Test("one object a line, every field, in order")
    func exact() async throws {
        _ = try await fixture.run(
            "exec", "--author", "me", "--context", "c\"\\",
            "INSERT INTO article VALUES (9007199254740993, CAST(x'ff' AS TEXT), 9e999), (2, 'a' || char(10, 0), 1)",
            "UPDATE article SET title = x'00ff', id = 3 WHERE id = 2", "DELETE FROM article WHERE id = 3")
        let large = #"{"$integer":"9007199254740993"}"#
        let context = #""c\"\\""#
        let expected = [
            try await head(1, author: "setup", context: #""track""#, entities: #""article""#) + "]}",
            try await head(2, author: "me", context: context, entities: #""article""#)
                + #"{"entity":"article","op":"insert","key":{"id":\#(large)},"before":null,"#
                + #""after":{"id":\#(large),"title":{"$text":"/w=="},"score":{"$real":"Infinity"}},"changed":[]},"#
                + #"{"entity":"article","op":"insert","key":{"id":2},"before":null,"#
                + #""after":{"id":2,"title":"a\n\u0000","score":1.0},"changed":[]}]}"#,
            try await head(3, author: "me", context: context, entities: #""article""#)
                + #"{"entity":"article","op":"update","key":{"id":2},"before":{"id":2,"title":"a\n\u0000"},"#
                + #""after":{"id":3,"title":{"$blob":"AP8="}},"changed":["id","title"]}]}"#,
            try await head(4, author: "me", context: context, entities: #""article""#)
                + #"{"entity":"article","op":"delete","key":{"id":3},"#
                + #""before":{"id":3,"title":{"$blob":"AP8="},"score":1.0},"after":null,"changed":[]}]}"#,
        ]
        expect(try await fixture.run("log", "--json"), output: expected.map { $0 + "\n" }.joined())
        expect(try await fixture.run("show", "3", "--json"), output: expected[2] + "\n")
    }

    @Test("another language's reader gets the values back exactly, of a transaction of any size")
    func python() async throws {
        _ = try await fixture.run(
            "exec", "--author", "me",
            """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
            INSERT INTO article SELECT i, char(i) || printf('%.100c', 'x'), i / 7.0 FROM n
            """)
        let script = """
            import json, sys
            t = json.loads(sys.stdin.read())
            rows = [c["after"] for c in t["changes"]]
            print(list(t), list(t["changes"][0]), len(rows))
            print(all(r["title"] == chr(r["id"]) + "x" * 100 and r["score"] == r["id"] / 7 for r in rows))
            """
        let json = try await fixture.run("show", "2", "--json").output
        let run = try await FinishedProcess.run("/usr/bin/env", ["python3", "-c", script], input: json)
        expect(
            run,
            output: """
                ['token', 'author', 'context', 'origin', 'time', 'entities', 'changes'] \
                ['entity', 'op', 'key', 'before', 'after', 'changed'] 5000
                True

                """)
    }
}
