import PersistentHistory
import Testing
import TidingsSQLite

extension DecodedChange {
    /// The change on one line: operation, key, before, after.
    var short: String {
        func text(_ values: HistoryValues?) -> String {
            values.map { "{" + $0.map { "\($0.column)=\($0.value.short)" }.joined(separator: " ") + "}" } ?? "-"
        }
        return "\(operation) \(entity)\(text(key)) \(text(before)) \(text(after))"
    }
}

extension SQLiteValue {
    /// The value as it is written in SQL, nearly.
    var short: String {
        switch self {
        case .null: "NULL"
        case .integer(let number): "\(number)"
        case .real(let number): "\(number)"
        case .text(let text): "'\(text)'"
        case .malformedText(let bytes): "text\(bytes)"
        case .blob(let bytes): "x\(bytes)"
        }
    }
}

/// Expects an error of a type. Inside a closure of its own the macro of the same meaning can run another closure.
func expectError<E: Error>(_ type: E.Type, at location: SourceLocation = #_sourceLocation, _ body: () throws -> Void) {
    do {
        try body()
        Issue.record("no error was thrown", sourceLocation: location)
    } catch {
        #expect(error is E, sourceLocation: location)
    }
}
