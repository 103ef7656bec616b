import Testing
import TidingsSQLite

extension Database {
    /// A database in memory, with a schema.
    static func memory(_ schema: String = "", cacheLimit: Int = 128) throws -> Database {
        let options = OpenOptions(access: .create, usesWriteAheadLog: false, statementCacheLimit: cacheLimit)
        let database = try Database(path: ":memory:", options: options)
        try database.execute(schema)
        return database
    }

    /// The whole of a table.
    func table(_ name: String) throws -> [[SQLiteValue]] { try rows("SELECT * FROM \(name)") }
}

/// An error of the tests' own.
struct Stop: Error, Equatable {}

/// The SQLite error that `body` throws; an issue where it throws none, or another.
///
/// Used instead of `#expect(throws:)`, which does not nest, and inside closures has been seen to run another closure
/// of the same function (Swift 6.3.1).
@discardableResult
func sqliteError<R>(at location: SourceLocation = #_sourceLocation, _ body: () throws -> R) -> SQLiteError? {
    thrown(at: location, body)
}

/// Expects that `body` throws ``Stop``.
func expectStop<R>(at location: SourceLocation = #_sourceLocation, _ body: () throws -> R) {
    _ = thrown(at: location, body) as Stop?
}

private func thrown<R, E: Error>(at location: SourceLocation, _ body: () throws -> R) -> E? {
    do {
        _ = try body()
        Issue.record("no error was thrown", sourceLocation: location)
    } catch let error as E {
        return error
    } catch {
        Issue.record("\(error) was thrown", sourceLocation: location)
    }
    return nil
}
