import Foundation
import PersistentHistory
import TidingsSQLite

enum ExecCommand: Subcommand {
    static let name = "exec"
    static let summary = "Run SQL in tracked transactions"
    static let operands = "DB [SQL…]"
    static let operandCount = 1...100_000
    static let options: [Option] = [
        .value("--author", "NAME", "who writes", isRequired: true),
        .value("--context", "NAME", "which part of the author writes"),
    ]
    static let details = """
        Each argument is one transaction and may hold several statements; without any, standard input is one. Prints the \
        sequence of each transaction, or - where nothing that is tracked changed. Rows of queries are not printed.
        The first that fails ends the run; those before it stay.
        """

    static func run(_ arguments: Arguments) async throws {
        let author = arguments.string("--author") ?? ""
        let store = try await HistoryStore.open(arguments.operands[0], author: author)
        let context = arguments.string("--context")
        let scripts = arguments.operands.count > 1 ? Array(arguments.operands.dropFirst()) : [try standardInput()]
        for (index, sql) in scripts.enumerated() {
            do {
                let token = try await store.write(context: context) { db in try db.execute(sql) }.token
                Output.line(token.map { String($0.sequence) } ?? "-")
            } catch {
                let place = arguments.operands.count > 1 ? "SQL argument \(index + 1)" : "standard input"
                throw CommandError("\(place) was rolled back: \((error as? HistoryError)?.message ?? "\(error)")")
            }
        }
        await store.close()
    }

    private static func standardInput() throws -> String {
        guard let sql = String(validating: try FileHandle.standardInput.readToEnd() ?? Data(), as: UTF8.self) else {
            throw CommandError("standard input is not valid UTF-8: convert it first")
        }
        return sql
    }
}
