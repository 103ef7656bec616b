internal import CTidingsSQLite

extension Database {
    /// Virtual-machine steps of all statements since the last call, for measurements.
    ///
    /// [Prepared statement status](https://www.sqlite.org/c3ref/stmt_status.html)
    package func takeVirtualMachineSteps() -> Int {
        var steps = 0
        var statement: OpaquePointer?
        while let next = unsafe sqlite3_next_stmt(handle, statement) {
            steps += Int(unsafe sqlite3_stmt_status(next, SQLITE_STMTSTATUS_VM_STEP, 1))
            unsafe statement = unsafe next
        }
        return steps
    }
}
