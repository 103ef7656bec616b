internal import CTidingsSQLite

extension Database {
    /// Lets the SQL functions `changes()` and `total_changes()` count what users count: see ``hidingChanges(_:)``.
    ///
    /// [sqlite3_create_function](https://www.sqlite.org/c3ref/create_function.html)
    package func installChangeCounters() throws(SQLiteError) {
        // Unretained: the functions go with the connection, which this object owns.
        let context = unsafe Unmanaged.passUnretained(self).toOpaque()
        let flags = SQLITE_UTF8 | SQLITE_INNOCUOUS
        let first = unsafe sqlite3_create_function_v2(
            handle, "changes", 0, flags, context,
            { context, _, _ in
                guard let user = unsafe sqlite3_user_data(context) else { return }
                let database = unsafe Unmanaged<Database>.fromOpaque(user).takeUnretainedValue()
                unsafe sqlite3_result_int64(context, Int64(database.changes))
            }, nil, nil, nil)
        guard first == SQLITE_OK else { throw error(first, sql: nil) }
        let second = unsafe sqlite3_create_function_v2(
            handle, "total_changes", 0, flags, context,
            { context, _, _ in
                guard let user = unsafe sqlite3_user_data(context) else { return }
                let database = unsafe Unmanaged<Database>.fromOpaque(user).takeUnretainedValue()
                unsafe sqlite3_result_int64(context, Int64(database.totalChanges))
            }, nil, nil, nil)
        guard second == SQLITE_OK else { throw error(second, sql: nil) }
    }
}
