extension Database {
    /// How a transaction takes its locks.
    public enum TransactionKind: String, Sendable {
        /// Locks when the first statement needs them.
        case deferred = "DEFERRED"
        /// Takes the write lock at once, so that nothing read inside can be stale at the commit.
        case immediate = "IMMEDIATE"
    }

    /// Runs `body` in a transaction: committed where it returns, rolled back where it throws.
    ///
    /// Inside a tracked write the transaction is open already: use ``savepoint(_:)``.
    public func transaction<R>(_ kind: TransactionKind = .immediate, _ body: () throws -> R) throws -> R {
        try checkNotAborted()
        guard !isInTransaction else {
            throw SQLiteError(.misuse, "a transaction is open already: use savepoint(_:) to nest")
        }
        try begin(prepare(kind == .immediate ? "BEGIN IMMEDIATE" : "BEGIN DEFERRED"))
        do {
            let result = try body()
            try commit(prepare("COMMIT"))
            return result
        } catch {
            rollBack()
            throw error
        }
    }

    /// Runs `body` between a SAVEPOINT and its RELEASE; where it throws, what it did is rolled back. Nests.
    ///
    /// Outside a transaction it is a deferred transaction, as SQLite's own outermost savepoint is.
    ///
    /// [Savepoints](https://www.sqlite.org/lang_savepoint.html)
    public func savepoint<R>(_ body: () throws -> R) throws -> R {
        try checkNotAborted()
        guard isInTransaction else { return try transaction(.deferred, body) }
        try execute("SAVEPOINT tidings_nested")
        do {
            let result = try body()
            try execute("RELEASE tidings_nested")
            return result
        } catch {
            // Where the error has ended the transaction there is no savepoint left, and nothing to undo.
            if isInTransaction {
                try execute("ROLLBACK TO tidings_nested")
                try execute("RELEASE tidings_nested")
            }
            throw error
        }
    }
}
