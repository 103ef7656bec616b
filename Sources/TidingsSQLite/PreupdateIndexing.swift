/// How the preupdate hook numbers the columns of a row, which differs between versions of SQLite.
///
/// The manual speaks of the "N-th column". Up to 3.40 at least, a rowid table is numbered by storage, in which
/// virtual generated columns come last, and a table without rowid in one way for old values and in another for the
/// new values of an update. Found out once a process, on a scratch database, rather than by version number.
package struct PreupdateIndexing: Sendable, Hashable {
    package enum Order: Sendable {
        /// As the columns were declared.
        case declaration
        /// Stored columns first, virtual ones last, each in order of declaration.
        case storage
    }

    /// Rowid tables, old and new values.
    package let rowidTable: Order
    /// Tables without rowid: old values, and the new ones of an insert.
    package let keyedTable: Order
    /// Tables without rowid: new values of an update.
    package let keyedTableUpdate: Order

    /// Tables without rowid: whether the affinity that an old value is given is looked up by the column's place in
    /// the key's index, as if that were its place in the table. Integers then come out as reals.
    package let misreadsKeyedTables: Bool

    /// The loaded library's ways.
    package static let current = Result { try probe() }

    private static func probe() throws -> PreupdateIndexing {
        let database = try Database(path: ":memory:", options: OpenOptions(access: .create, usesWriteAheadLog: false))
        let probe = Probe()
        try database.installPreupdateHook(probe)
        // The virtual column stands second, so that `a` has index 2 by declaration and 1 by storage.
        let columns = "(k INTEGER PRIMARY KEY, g AS (a + 1), a)"
        try database.execute("CREATE TABLE r\(columns); CREATE TABLE w\(columns) WITHOUT ROWID")
        try database.execute("INSERT INTO r(k, a) VALUES (1, 71); INSERT INTO w(k, a) VALUES (1, 71)")
        try database.execute("UPDATE r SET a = 72; UPDATE w SET a = 72")
        // In the key's index `b` stands first, where the table has the REAL column `a`.
        try database.execute("CREATE TABLE x(a REAL, b INTEGER, PRIMARY KEY (b, a)) WITHOUT ROWID")
        try database.execute("INSERT INTO x VALUES (1.5, 7); DELETE FROM x")
        let found = probe.orders
        guard found.count == 6, found[0] == found[2], found[0] == found[3], found[1] == found[4] else {
            throw SQLiteError(
                .unsupported,
                "SQLite \(Database.libraryVersion) numbers columns in its preupdate hook in an unknown way")
        }
        return PreupdateIndexing(
            rowidTable: found[0], keyedTable: found[1], keyedTableUpdate: found[5],
            misreadsKeyedTables: probe.deletedClass != 1)
    }

    private final class Probe: PreupdateObserver {
        /// In order: insert into r, insert into w, update of r old and new, update of w old and new.
        var orders: [Order] = []
        /// The storage class of the integer in the deleted row of x.
        var deletedClass: Int32 = 0

        func willChange(_ change: borrowing PreupdateChange) {
            guard unsafe change.operation != .delete else {
                deletedClass = unsafe change.old(at: 1).storageClass
                return
            }
            guard orders.count < 6 else { return }
            if unsafe change.operation == .update {
                orders.append(unsafe change.old(at: 2).bits == 71 ? .declaration : .storage)
            }
            let isUpdate = unsafe change.operation == .update
            orders.append(unsafe change.new(at: 2).bits == (isUpdate ? 72 : 71) ? .declaration : .storage)
        }
    }
}
