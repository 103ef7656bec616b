import Glibc
import PersistentHistory
import TidingsSQLite

enum ExecCommand: Subcommand {
    static let name = "exec"
    static let summary = "Run SQL in tracked transactions"
    static let operands: [Operand] = [
        .database,
        .any("SQL", "each is one transaction and may hold several statements; without any, standard input is one"),
    ]
    static let options: [Option] = [
        .value("--author", "NAME", "who writes", isRequired: true),
        .value("--context", "NAME", "which part of the author writes"),
    ]
    static let details = """
        Prints the sequence of each transaction, or - where nothing that is tracked changed. Rows of queries are \
        not printed. The first transaction that fails is rolled back and ends the run; those before it stay.
        """

    static func run(_ arguments: Arguments) async throws {
        let context = arguments.string("--context")
        if let context, context.allSatisfy(\.isWhitespace) {
            throw UsageError("--context is empty: leave it out, or name which part of the author writes")
        }
        try await Stores.writing(arguments.operands[0], author: arguments.string("--author") ?? "") { store in
            let scripts = Array(arguments.operands.dropFirst())
            guard !scripts.isEmpty else {
                return try await run(try standardInput(), "standard input", context, store)
            }
            for (index, sql) in scripts.enumerated() {
                try await run(sql, "argument \(index + 1) of \(scripts.count)", context, store)
            }
        }
    }

    private static func run(_ sql: String, _ place: String, _ context: String?, _ store: HistoryStore) async throws {
        do {
            let token = try await store.write(context: context) { db in try db.execute(sql) }.token
            Output.line(token.map { String($0.sequence) } ?? "-")
            // At once: whoever reads must know what was committed, whatever becomes of the rest.
            Output.flush()
        } catch {
            let text = CommandError.text(of: error, in: store.path)
            throw CommandError("\(place) was rolled back: \(text)\(remedy(for: error))")
        }
    }

    /// What to do instead, where SQLite itself refuses something in any transaction.
    private static func remedy(for error: any Error) -> String {
        guard let error = error as? SQLiteError, error.message == "cannot VACUUM from within a transaction" else {
            return ""
        }
        return ": it changes no rows, so run it with `sqlite3 DB VACUUM`"
    }

    private static func standardInput() throws(CommandError) -> String {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(STDIN_FILENO, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else {
                throw CommandError("cannot read standard input: \(String(cString: strerror(errno)))")
            }
            if count == 0 { break }
            bytes += buffer[..<count]
        }
        guard let sql = String(validating: bytes, as: UTF8.self) else {
            throw CommandError("standard input is not valid UTF-8: convert it first")
        }
        return sql
    }
}
