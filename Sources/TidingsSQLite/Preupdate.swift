internal import CTidingsSQLite

/// A value lent by SQLite inside the preupdate hook: no allocation, no ownership.
@unsafe
package struct BorrowedValue {
    /// SQLite's storage class: 1 integer, 2 real, 3 text, 4 blob, 5 NULL.
    package var storageClass: Int32
    /// The integer, or the bits of the real.
    package var bits: Int64
    /// The bytes of a text or blob, valid until the hook returns.
    package var bytes: UnsafeRawPointer?
    /// Their number.
    package var count: Int
    /// True where the stored row is older than the column: SQLite reports NULL, the value is the column's default.
    package var isAbsent: Bool

    package init(storageClass: Int32, bits: Int64 = 0, bytes: UnsafeRawPointer? = nil, count: Int = 0) {
        unsafe self.storageClass = storageClass
        unsafe self.bits = bits
        unsafe self.bytes = unsafe bytes
        unsafe self.count = count
        unsafe isAbsent = false
    }

    /// Reads a value of SQLite's.
    ///
    /// [Obtaining SQL values](https://www.sqlite.org/c3ref/value_blob.html)
    @inline(__always)
    init(_ value: OpaquePointer, absent: OpaquePointer?) {
        unsafe isAbsent = value == absent
        unsafe bits = 0
        unsafe bytes = nil
        unsafe count = 0
        unsafe storageClass = sqlite3_value_type(value)
        switch unsafe storageClass {
        case SQLITE_INTEGER:
            unsafe bits = sqlite3_value_int64(value)
        case SQLITE_FLOAT:
            unsafe bits = Int64(bitPattern: sqlite3_value_double(value).bitPattern)
        case SQLITE_TEXT, SQLITE_BLOB:
            // The length first: it settles the encoding. Then the bytes as they are: sqlite3_value_text() would copy
            // every text to end it with a NUL.
            unsafe count = Int(sqlite3_value_bytes(value))
            unsafe bytes = sqlite3_value_blob(value)
        default:
            break
        }
    }
}

/// A row that is about to change, seen from inside the preupdate hook.
///
/// [The pre-update hook](https://www.sqlite.org/c3ref/preupdate_blobwrite.html)
@unsafe
package struct PreupdateChange {
    package enum Operation: Int32 {
        case insert = 18
        case update = 23
        case delete = 9
    }

    let handle: OpaquePointer
    let absent: OpaquePointer?
    package let operation: Operation
    /// `main`, `temp` or the name of an attached database.
    package let database: UnsafePointer<CChar>
    package let table: UnsafePointer<CChar>
    /// The rowid before the change; 0 for a table without rowid.
    package let rowID: Int64

    /// The column that an incremental blob write changes; nil for all else.
    package var blobColumn: Int? {
        let column = unsafe sqlite3_preupdate_blobwrite(handle)
        return column < 0 ? nil : Int(column)
    }

    /// The value before the change. `index` is the hook's own, see ``PreupdateIndexing``.
    package func old(at index: Int32) -> BorrowedValue {
        var value: OpaquePointer?
        guard unsafe sqlite3_preupdate_old(handle, index, &value) == SQLITE_OK, let found = unsafe value else {
            return unsafe BorrowedValue(storageClass: SQLITE_NULL)
        }
        return unsafe BorrowedValue(found, absent: absent)
    }

    /// The value after the change.
    package func new(at index: Int32) -> BorrowedValue {
        var value: OpaquePointer?
        guard unsafe sqlite3_preupdate_new(handle, index, &value) == SQLITE_OK, let found = unsafe value else {
            return unsafe BorrowedValue(storageClass: SQLITE_NULL)
        }
        return unsafe BorrowedValue(found, absent: absent)
    }
}

/// Is told of each row before it changes. Must run no SQL on the connection.
package protocol PreupdateObserver: AnyObject {
    func willChange(_ change: borrowing PreupdateChange)
}

/// What the hook's callback refers to; kept alive by the database.
@safe
private final class PreupdateContext {
    let observer: any PreupdateObserver
    /// The address of the one constant that SQLite returns for values that a row does not have. Told apart from a
    /// stored NULL by identity alone.
    let absent: OpaquePointer?
    /// Owns the constant's address: it comes from a column of a statement that stands on no row.
    let source: Statement

    init(observer: any PreupdateObserver, source: Statement) {
        self.observer = observer
        self.source = source
        unsafe absent = sqlite3_column_value(source.handle, 0)
    }
}

extension Database {
    /// True where the loaded SQLite has the preupdate hook.
    package static var hasPreupdateHook: Bool { tidings_sqlite_has_preupdate_hook() != 0 }

    /// Installs the hook. Must come before any statement is prepared: a DELETE without WHERE that was prepared
    /// earlier would bypass it.
    package func installPreupdateHook(_ observer: any PreupdateObserver) throws(SQLiteError) {
        guard Self.hasPreupdateHook else {
            throw SQLiteError(
                .unsupported,
                "this SQLite (\(Self.libraryVersion)) is built without the preupdate hook: "
                    + "use a library compiled with SQLITE_ENABLE_PREUPDATE_HOOK, as Debian's and Ubuntu's are")
        }
        let source = try internally { () throws(SQLiteError) in try prepare("SELECT 1") }
        let context = PreupdateContext(observer: observer, source: source)
        callbackContexts.append(context)
        setPreupdateHook(context)
    }

    /// Runs statements of the library's own that change many rows of its own tables, without the hook, which would be
    /// called for each row only to look away.
    package func withoutPreupdateHook<R>(_ body: () throws -> R) rethrows -> R {
        // The context stays with the database, and with it the address that the hook gets back.
        guard let context = callbackContexts.lazy.compactMap({ $0 as? PreupdateContext }).first else {
            return try body()
        }
        unsafe sqlite3_preupdate_hook(handle, nil, nil)
        defer { setPreupdateHook(context) }
        return try body()
    }

    private func setPreupdateHook(_ context: PreupdateContext) {
        unsafe sqlite3_preupdate_hook(
            handle,
            { context, handle, operation, database, table, rowID, _ in
                guard let context = unsafe context, let handle = unsafe handle, let database = unsafe database,
                    let table = unsafe table, let operation = PreupdateChange.Operation(rawValue: operation)
                else { return }
                let target = unsafe Unmanaged<PreupdateContext>.fromOpaque(context).takeUnretainedValue()
                let change = unsafe PreupdateChange(
                    handle: handle, absent: target.absent, operation: operation, database: database, table: table,
                    rowID: rowID)
                unsafe target.observer.willChange(change)
            }, Unmanaged.passUnretained(context).toOpaque())
    }

    /// The version of the loaded SQLite, such as `3.40.1`.
    public static var libraryVersion: String { unsafe String(cString: sqlite3_libversion()) }

    /// The version as a number, such as 3040001.
    package static var libraryVersionNumber: Int { Int(sqlite3_libversion_number()) }
}
