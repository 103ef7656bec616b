internal import CTidingsSQLite

/// Is told where transactions and savepoints begin and end, statements' own savepoints included.
package protocol TransactionObserver: AnyObject {
    func didSetSavepoint(_ number: Int)
    func didRelease(_ number: Int)
    func didRollBack(to number: Int)
    func didCommit()
    func didRollBack()
}

/// The virtual table's structure as SQLite sees it, with a reference to the observer behind it.
@unsafe
private struct TransactionTable {
    var base: sqlite3_vtab
    var context: UnsafeRawPointer?
}

private final class TransactionContext {
    let observer: any TransactionObserver
    init(observer: any TransactionObserver) { self.observer = observer }
}

/// An eponymous virtual table that holds nothing: a transaction that inserts into it has its savepoints announced.
///
/// [The virtual table mechanism](https://www.sqlite.org/vtab.html)
private enum TransactionModule {
    /// Never freed: SQLite keeps the address as long as any connection has the module.
    nonisolated(unsafe) static let module: UnsafeMutablePointer<sqlite3_module> = {
        var module = sqlite3_module()
        module.iVersion = 2
        // No xCreate: the table exists in every schema by its name alone, and nobody can create another.
        unsafe module.xConnect = { handle, context, _, _, result, _ in
            let code = unsafe sqlite3_declare_vtab(handle, "CREATE TABLE x(a)")
            guard code == SQLITE_OK else { return code }
            let table = UnsafeMutablePointer<TransactionTable>.allocate(capacity: 1)
            unsafe table.initialize(to: TransactionTable(base: sqlite3_vtab(), context: UnsafeRawPointer(context)))
            unsafe result?.pointee = UnsafeMutableRawPointer(table).assumingMemoryBound(to: sqlite3_vtab.self)
            return SQLITE_OK
        }
        unsafe module.xDisconnect = { table in
            unsafe UnsafeMutableRawPointer(table)?.assumingMemoryBound(to: TransactionTable.self).deallocate()
            return SQLITE_OK
        }
        unsafe module.xBestIndex = { _, _ in SQLITE_CONSTRAINT }
        unsafe module.xOpen = { _, _ in SQLITE_ERROR }
        unsafe module.xClose = { _ in SQLITE_OK }
        unsafe module.xFilter = { _, _, _, _, _ in SQLITE_ERROR }
        unsafe module.xNext = { _ in SQLITE_ERROR }
        unsafe module.xEof = { _ in 1 }
        unsafe module.xColumn = { _, _, _ in SQLITE_ERROR }
        unsafe module.xRowid = { _, _ in SQLITE_ERROR }
        unsafe module.xUpdate = { _, _, _, rowID in
            unsafe rowID?.pointee = 1
            return SQLITE_OK
        }
        unsafe module.xBegin = { _ in SQLITE_OK }
        unsafe module.xSync = { _ in SQLITE_OK }
        unsafe module.xCommit = { table in
            unsafe observer(of: table)?.didCommit()
            return SQLITE_OK
        }
        unsafe module.xRollback = { table in
            unsafe observer(of: table)?.didRollBack()
            return SQLITE_OK
        }
        unsafe module.xSavepoint = { table, number in
            unsafe observer(of: table)?.didSetSavepoint(Int(number))
            return SQLITE_OK
        }
        unsafe module.xRelease = { table, number in
            unsafe observer(of: table)?.didRelease(Int(number))
            return SQLITE_OK
        }
        unsafe module.xRollbackTo = { table, number in
            unsafe observer(of: table)?.didRollBack(to: Int(number))
            return SQLITE_OK
        }
        let pointer = UnsafeMutablePointer<sqlite3_module>.allocate(capacity: 1)
        unsafe pointer.initialize(to: module)
        return unsafe pointer
    }()

    static func observer(of table: UnsafeMutablePointer<sqlite3_vtab>?) -> (any TransactionObserver)? {
        let own = unsafe UnsafeMutableRawPointer(table)?.assumingMemoryBound(to: TransactionTable.self)
        guard let context = unsafe own?.pointee.context else { return nil }
        return unsafe Unmanaged<TransactionContext>.fromOpaque(context).takeUnretainedValue().observer
    }
}

extension Database {
    /// Registers the virtual table `name`. A transaction joins by inserting a row into it.
    package func installTransactionTable(_ name: String, observer: any TransactionObserver) throws(SQLiteError) {
        let context = TransactionContext(observer: observer)
        callbackContexts.append(context)
        let code = unsafe sqlite3_create_module_v2(
            handle, name, TransactionModule.module, Unmanaged.passUnretained(context).toOpaque(), nil)
        guard code == SQLITE_OK else { throw error(code, sql: nil) }
    }
}
